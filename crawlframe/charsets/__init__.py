"""Character encodings of bodies, found as browsers find them."""
