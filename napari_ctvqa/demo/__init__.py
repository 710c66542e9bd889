"""The generated demo case: a CT phantom, its questions, answers with mistakes, a tool cache."""
