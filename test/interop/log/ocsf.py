"""Judges lines of JSON as events of OCSF, by the newest schema that the package has."""

import json
import sys

import jsonschema
from ocsf_json_schema import OcsfJsonSchemaEmbedded, get_ocsf_schema

version = sys.argv[1]
schemas = OcsfJsonSchemaEmbedded(get_ocsf_schema(version=version))
counts = {}
for line in sys.stdin:
    event = json.loads(line)
    schema = schemas.get_class_schema({3002: "authentication", 3004: "entity_management"}[event["class_uid"]])
    schema.pop("$schema", None)
    for error in jsonschema.Draft202012Validator(schema).iter_errors(event):
        print(f"{'.'.join(map(str, error.path))}: {error.message}"[:300])
    counts[event["class_uid"]] = counts.get(event["class_uid"], 0) + 1
print(json.dumps(counts))
