"""How the toy model is made: generated bodies, pictures, questions, training, check."""
