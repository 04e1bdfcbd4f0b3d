import { expect, test } from "vitest";
import { configurationOf } from "../testkit/configuration.ts";

const url = "https://v.test";
const asked = (table: object) => ({
  AUTHORITY_ROOT: "upstream",
  UPSTREAM_AUTHORITY: { kind: "vault", url, ...table },
});

test.each<[string, object, string]>([
  ["without the CA upstream", { AUTHORITY_ROOT: "upstream" }, "UPSTREAM_AUTHORITY: is required"],
  [
    "with one that is not asked",
    { UPSTREAM_AUTHORITY: { kind: "vault", url } },
    'UPSTREAM_AUTHORITY: has no effect unless AUTHORITY_ROOT is "upstream"',
  ],
  [
    "with plain HTTP to another machine",
    asked({ url: "http://v.test" }),
    "UPSTREAM_AUTHORITY.url: must be an https URL",
  ],
  [
    "with a mount that climbs",
    asked({ mount: "../sys" }),
    "UPSTREAM_AUTHORITY.mount: must be a path without dots",
  ],
])("a configuration %s is refused", (_, values, sentence) => {
  expect(() => configurationOf({ ...values })).toThrow(sentence);
});
