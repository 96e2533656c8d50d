"""Reads YAML files written by people: every mistake is reported with its file, line and name.

A kind of file is a schema: frozen structs whose fields are its sections and settings, and whose
types define the accepted values.

    class Node(Settings):
        address: Address
        memory: Memory = Memory(1024)

    class ClusterFile(Settings):
        cluster: Name
        nodes: Section[Node]

    document = parse(text, "cluster.yaml")
    settings = read(document, ClusterFile, "a cluster")

`document` parses a text into plain data, and knows the place of each part. `schema` makes structs
of the data and turns what msgspec refuses into a sentence such as "cluster.yaml:7: 'a' has a
setting 'memory' that should be 512m or more, not '1m'". `values` has the types of settings: a
constrained number is an annotated one, and a text with a meaning is a class with a method `read`.

Conditions that a schema cannot express are checked afterwards, beside the schema, inside
`document.blaming(...)`, which adds the place to a mistake. A struct checks relations between its
own fields in its `__post_init__`, which raises a `UserError`, or a `SettingError` that names the
setting at fault.

Files are untrusted: their nesting, their size with aliases expanded, and their tags are limited,
and nothing in them is executed.
"""
