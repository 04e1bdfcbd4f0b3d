import { describe, expect, test } from "vitest";
import { configurationOf, expectOneFault, faultsOf, issuer } from "../testkit/configuration.ts";

const callers = [{ issuer }];

describe("SIGNERS", () => {
  test("need a name, and callers that may use them", () => {
    expect(configurationOf({ SIGNERS: [{ name: "a", callers }] }).signers).toEqual([
      {
        name: "a",
        authority_key: "EC-P256",
        mesh_bundle: false,
        callers: [{ issuer, namespaces: ["*"], accounts: ["*"] }],
      },
    ]);
  });

  test("may be JSON in a text", () => {
    const SIGNERS = JSON.stringify([{ name: "a.b-c", inception_date: "2026-11-21", callers }]);
    expect(configurationOf({ SIGNERS }).signers).toMatchObject([{ name: "a.b-c" }]);
  });

  test.each<[string, unknown, string]>([
    [
      "a name twice",
      [
        { name: "a", callers },
        { name: "a", callers },
      ],
      "SIGNERS",
    ],
    [
      "seventeen of them",
      Array.from({ length: 17 }, (_, i) => ({ name: `a${i}`, callers })),
      "SIGNERS",
    ],
    ["the name that is taken", [{ name: "serving", callers }], "SIGNERS[0].name"],
    ["a name with a slash", [{ name: "a/b", callers }], "SIGNERS[0].name"],
    ["a name that climbs", [{ name: "..", callers }], "SIGNERS[0].name"],
    ["a name in upper case", [{ name: "A", callers }], "SIGNERS[0].name"],
    ["nobody who may use it", [{ name: "a", callers: [] }], "SIGNERS[0].callers"],
    [
      "an issuer that is none",
      [{ name: "a", callers: [...callers, { issuer: "https://x" }] }],
      "SIGNERS[0].callers[1].issuer",
    ],
    ["a kind of key", [{ name: "a", callers, authority_key: "DSA" }], "SIGNERS[0].authority_key"],
    ["a day", [{ name: "a", callers, inception_date: "today" }], "SIGNERS[0].inception_date"],
    [
      "a CA upstream of its own",
      [{ name: "a", callers, upstream_authority: { kind: "vault", url: "https://v.test" } }],
      "SIGNERS[0].upstream_authority",
    ],
    ["another key", [{ name: "a", callers, KEK: "x" }], "SIGNERS[0].KEK"],
  ])("may not have %s", (_, SIGNERS, place) => {
    expectOneFault({ SIGNERS }, place);
  });

  test("warn where the mesh gets roots that not all of it can read", () => {
    const SIGNERS = [{ name: "a", callers, authority_key: "ML-DSA-65", mesh_bundle: true }];
    const about = configurationOf({ SIGNERS }).warnings.filter((each) =>
      each.startsWith("SIGNERS"),
    );
    expect(about).toEqual([expect.stringContaining("the ML-DSA-65 roots of a, which ztunnel")]);
    const classical = [{ name: "a", callers, mesh_bundle: true }];
    expect(faultsOf({ SIGNERS: classical })).toEqual([
      expect.stringContaining("SIGNERS[0]: mesh_bundle is for ML-DSA"),
    ]);
  });

  test("have no root of ML-DSA in a key service, which has none", () => {
    const upstream_authority = { kind: "key-service", keys: ["awskms:///x"], root: "x" };
    const SIGNERS = [{ name: "a", callers, authority_key: "ML-DSA-65", upstream_authority }];
    const fault =
      "SIGNERS[0]: upstream_authority is for EC and RSA: no key service has a root of ML-DSA";
    expect(faultsOf({ SIGNERS })).toContain(fault);
  });
});
