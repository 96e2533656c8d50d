"""The promises of DPC (DESIGN section 5), one checker each."""
