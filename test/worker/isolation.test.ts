import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import { apiCredentialName } from "../contract/service-under-test.ts";

test("the Worker under test has the settings of vitest.config.ts, and none of a file of the checkout", () => {
  const ours = Object.keys(env).filter((name) => !name.startsWith("__VITEST"));
  const bindings = ["AUTHORITIES", "CALLER_QUOTA", "ISSUER_QUOTA", "CALL_COUNTS"];
  const log = ["LOG_BUCKET", "LOG_SHARD"];
  const values = ["INCEPTION_DATE", "ISSUERS", "KEK", "PROPAGATION_INTERVAL", "TRUST_DOMAIN"];
  expect(ours.toSorted()).toEqual([...bindings, ...log, ...values, apiCredentialName].toSorted());
});
