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

  const a = { name: "a", callers };

  test.each<[string, unknown]>([
    ["", [a, a]],
    ["", Array.from({ length: 17 }, (_, i) => ({ name: `a${i}`, callers }))],
    ["[0].name", [{ ...a, name: "serving" }]],
    ["[0].name", [{ ...a, name: "a/b" }]],
    ["[0].name", [{ ...a, name: ".." }]],
    ["[0].name", [{ ...a, name: "A" }]],
    ["[0].callers", [{ ...a, callers: [] }]],
    ["[0].callers[1].issuer", [{ ...a, callers: [...callers, { issuer: "https://x" }] }]],
    ["[0].authority_key", [{ ...a, authority_key: "DSA" }]],
    ["[0].inception_date", [{ ...a, inception_date: "today" }]],
    ["[0].upstream_authority", [{ ...a, upstream_authority: { kind: "vault", url: issuer } }]],
    ["[0].KEK", [{ ...a, KEK: "x" }]],
  ])("may not be wrong in %j: %j", (place, SIGNERS) => {
    expectOneFault({ SIGNERS }, `SIGNERS${place}`);
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
