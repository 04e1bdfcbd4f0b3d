import { expect, test } from "vitest";
import { Configuration } from "../../src/config/configuration.ts";
import { ConfigurationForm } from "../../src/config/form.ts";
import { ConfigurationError } from "../../src/foundation/errors.ts";
import { DistributeConfiguration } from "../../src/node/distribute/distribute.ts";
import { GatewayConfiguration } from "../../src/node/gateway/gateway-configuration.ts";
import { ServeConfiguration } from "../../src/node/serve/serve-configuration.ts";
import { SignerConfiguration } from "../../src/node/signer/signer-configuration.ts";
import { randomKek } from "../testkit/configuration.ts";

type Values = Readonly<Record<string, unknown>>;

const follower = { UPSTREAM: "https://ca.test" };
const programs: Readonly<Record<string, [readonly string[], Values, (values: Values) => unknown]>> =
  {
    serve: [
      [...new Set([...Configuration.keys, ...ServeConfiguration.keys])],
      { KEK: randomKek(), STORE_DIRECTORY: "store", ISSUERS: [{ issuer: "https://a.test" }] },
      (values) => ServeConfiguration.parse(values, {}),
    ],
    gateway: [
      GatewayConfiguration.keys,
      follower,
      (values) => GatewayConfiguration.parse(values, {}),
    ],
    distribute: [
      DistributeConfiguration.keys,
      follower,
      (values) => DistributeConfiguration.parse(values, {}),
    ],
    signer: [SignerConfiguration.keys, follower, (values) => SignerConfiguration.parse(values, {})],
  };

const wrong = [-1, 1e300, "", "é".repeat(3000), "a\nb", [], [[]], new Date(0), Number.NaN];

function faultsOf(parse: () => unknown): readonly string[] {
  try {
    parse();
    return [];
  } catch (error) {
    if (error instanceof ConfigurationError) return error.faults;
    throw error;
  }
}

const rows = Object.entries(programs).flatMap(([program, [keys]]) =>
  keys.map((key): [string, string] => [program, key]),
);

test.each(rows)("rampart %s says one sentence for a value that %s cannot have", (program, key) => {
  const [, base, parse] = programs[program] ?? [];
  for (const value of wrong) {
    const faults = faultsOf(() => parse?.({ ...base, [key]: value }));
    const about = faults.filter((fault) => fault.startsWith(`${key}: `));
    expect(about.length, `${about}`).toBeLessThanOrEqual(1);
    for (const fault of faults) expect(fault).toMatch(/^[A-Z_0-9]+\S*: [^\n]{1,250}$/);
  }
});

test("the faults of all parts are told at once, and a defect is none", () => {
  const faulty = (fault: string) => () => {
    throw new ConfigurationError([fault]);
  };
  const defect = () => {
    throw new TypeError("defect");
  };
  const parse = (b: () => never) => () =>
    ConfigurationForm.together({ a: faulty("A: x"), b, c: () => 1 });
  expect(faultsOf(parse(faulty("B: y")))).toEqual(["A: x", "B: y"]);
  expect(parse(defect)).toThrow(TypeError);
});

test.each([
  ["gateway", "TOKEN_FILE", "/token\n", "must be a path, without control characters"],
  ["signer", "LEASE", "rampart", "must be <namespace>/<name of a Lease>"],
  ["serve", "SERVING_NAMES", "", "must be array, not string"],
  ["serve", "__proto__x", 1, "is not a key of Rampart"],
  ["serve", "TRUST_DOMIAN", "a", "is not a key of Rampart; did you mean TRUST_DOMAIN?"],
  ["serve", "issuers", [], "is not a key of Rampart; did you mean ISSUERS?"],
  ["gateway", "UPSTREAMS", "a", "is not a key of Rampart; did you mean UPSTREAM?"],
])("rampart %s: %s: %j: %s", (program, key, value, fault) => {
  const [, base, parse] = programs[program] ?? [];
  expect(faultsOf(() => parse?.({ ...base, [key]: value }))).toContain(`${key}: ${fault}`);
});
