"""The papers' evaluations, run again, and benches beside other systems.

There is one folder for each paper. An experiment is a small module that reproduces one figure or
table: the paper's values where the stored text has them (its plots are not there, and no value is
invented for them), ours beside them, and claims that can fail. `claims` defines results, `registry`
lists all experiments by name, `report` and `plots` write results to files. Models that only
evaluation needs, such as centralized optima and rivals, are beside the experiments that use them.

`australis` never imports this package, except for its command line: `australis experiment` and
`australis bench` run it in a checkout, with the libraries of the extra `research`.
"""
