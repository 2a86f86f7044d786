"""Figures without a drawing library: one drawing, written as SVG, PNG or a page; and shades for a terminal."""
