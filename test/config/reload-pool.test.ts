import { expect, test } from "vitest";
import { ReloadPool, ReloadPools } from "../../src/config/reload-pool.ts";
import { tokenIssuers } from "../../src/config/token-issuers.ts";
import { sharePromises } from "../../src/node/limits/promise-sharing.ts";
import { configurationOf, issuer } from "../testkit/configuration.ts";
import { createEventRecorder } from "../testkit/log/event-recorder.ts";

/** Parts that record when they end. */
function createParts() {
  const ended: string[] = [];
  const parts = new ReloadPool<{ readonly name: string }>();
  const ask = (name: string) =>
    parts.of([name], (ending) => {
      ending.addEventListener("abort", () => ended.push(name));
      return { name };
    });
  return { parts, ask, ended };
}

test("a part stays the same object while it is asked for", () => {
  const { parts, ask, ended } = createParts();
  const first = ask("a");
  parts.commit();
  expect(ask("a")).toBe(first);
  expect(ask("a")).toBe(first);
  parts.commit();
  expect(ended).toEqual([]);
});

test("a part ends once a composition counts that has not asked for it, and begins anew after that", () => {
  const { parts, ask, ended } = createParts();
  const first = ask("a");
  parts.commit();
  ask("b");
  expect(ended).toEqual([]);
  parts.commit();
  expect(ended).toEqual(["a"]);
  expect(ask("a")).not.toBe(first);
});

test("a composition that is given up ends its new parts, and none of the former", () => {
  const { parts, ask, ended } = createParts();
  const first = ask("a");
  parts.commit();
  ask("b");
  parts.rollback();
  expect(ended).toEqual(["b"]);
  expect(ask("a")).toBe(first);
});

test("maps and sets count with what they hold", () => {
  const parts = new ReloadPool<object>();
  const ask = (madeFrom: unknown) => parts.of(madeFrom, () => ({}));
  const first = ask({ serials: new Map([["01", 5]]) });
  expect(ask({ serials: new Map([["01", 5]]) })).toBe(first);
  expect(ask({ serials: new Map([["02", 5]]) })).not.toBe(first);
  expect(ask(new Set(["a"]))).not.toBe(ask(new Set(["b"])));
});

test("an issuer has other keys and reviews as soon as its table leads elsewhere, and the same otherwise", () => {
  const pem = (text: string) => `-----BEGIN CERTIFICATE-----\n${text}\n-----END CERTIFICATE-----\n`;
  const credential = "CLUSTER_CREDENTIAL_A";
  const platform = {
    log: createEventRecorder(),
    fetching: { fetchTrusting: () => fetch },
    shareWork: sharePromises,
    pools: ReloadPools.create(),
  };
  const partsOf = (changes: object = {}, access: object = {}) => {
    const kubernetes = { server: "https://10.0.0.1", credential, ca: pem("MIIB"), ...access };
    const table = { issuer, jwks_uri: `${issuer}/1`, kubernetes, ...changes };
    const values = { ISSUERS: [table], [credential]: "x", CLUSTER_CREDENTIAL_B: "y" };
    const [made] = tokenIssuers(configurationOf(values), platform);
    return [made?.keys, made?.review?.ask];
  };
  const [keys, review] = partsOf();
  const isSame = (parts: readonly unknown[]) => [parts[0] === keys, parts[1] === review];
  expect(isSame(partsOf())).toEqual([true, true]);
  expect(isSame(partsOf({ jwks_uri: `${issuer}/2` }))).toEqual([false, true]);
  expect(isSame(partsOf({ audiences: ["other"] }))).toEqual([true, false]);
  for (const access of [
    { server: "https://10.0.0.2" },
    { ca: pem("MIIC") },
    { credential: "CLUSTER_CREDENTIAL_B" },
  ])
    expect(isSame(partsOf({}, access))).toEqual([true, false]);
});
