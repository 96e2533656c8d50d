"""The promises of DPC (`protocols.dpc`), one checker each."""
