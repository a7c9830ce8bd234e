"""Confidence bounds, the certificate they make, and its verification by independent code."""
