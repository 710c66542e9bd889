"""``python -m napari_ctvqa``."""

import sys

from napari_ctvqa.cli import main

sys.exit(main())
