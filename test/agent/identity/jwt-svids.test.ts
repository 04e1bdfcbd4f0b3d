import { setImmediate } from "node:timers/promises";
import { Code, ConnectError } from "@connectrpc/connect";
import { beforeEach, expect, test } from "vitest";
import { IssuanceError } from "../../../src/agent/identity/x509-svid.ts";
import {
  createJwtAuthority,
  type JwtAuthority,
  subject,
} from "../../testkit/agent/jwt-authority.ts";
import { createTokenKey } from "../../testkit/callers/tokens.ts";
import { workload } from "../../testkit/pki/certificates.ts";
import { eventually } from "../../testkit/time/eventually.ts";

let authority: JwtAuthority;
beforeEach(async () => {
  authority = await createJwtAuthority();
});

const obtain = (...audiences: string[]) =>
  authority.jwtSvids.obtain(subject, audiences.length > 0 ? audiences : ["a"]);
const pass = (seconds: number): void => {
  authority.now = new Date(authority.now.getTime() + 1000 * seconds);
};
const faultOf = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => "a token",
    (error) => (error instanceof IssuanceError ? error.fault : String(error)),
  );
const unavailable = new ConnectError("down", Code.FailedPrecondition);

test("a token is given out until half of its life, whatever the order of its audiences", async () => {
  const { token, renewsAt } = await obtain("a", "b");
  expect(renewsAt.getTime() - authority.now.getTime()).toBe(150_000);
  pass(149);
  expect((await obtain("b", "a", "b")).token).toBe(token);
  pass(2);
  expect((await obtain("a", "b")).token).not.toBe(token);
  expect(authority.requests.map(({ audiences }) => audiences)).toEqual([
    ["a", "b"],
    ["a", "b"],
  ]);
});

test("audiences that look alike when they are joined share no token", async () => {
  const tokens = [await obtain("a", "b"), await obtain("a b"), await obtain('a","b')];
  expect(new Set(tokens.map(({ token }) => token)).size).toBe(3);
});

test("callers that come at once share a request", async () => {
  const tokens = await Promise.all([obtain(), obtain(), obtain()]);
  expect(new Set(tokens.map(({ token }) => token)).size).toBe(1);
  expect(authority.requests).toHaveLength(1);
});

test("only so many requests wait at once, eight of them for the CA, and all end with the agent", async () => {
  authority.answering = new Promise(() => undefined);
  const faults: string[] = [];
  const all = Array.from({ length: 70 }, async (_, i) => {
    faults.push(await faultOf(obtain(`audience-${i}`)));
  });
  await eventually(() => expect(authority.requests.length).toBeGreaterThanOrEqual(8));
  for (let turn = 0; turn < 10; turn++) await setImmediate();
  expect(authority.requests).toHaveLength(8);
  expect(faults).toEqual(Array(6).fill("authority-unreachable"));
  authority.jwtSvids.end();
  await Promise.all(all);
});

test("an outage leaves the token until it ends", async () => {
  const { token } = await obtain();
  authority.refusal = unavailable;
  pass(200);
  expect((await obtain()).token).toBe(token);
  pass(101);
  expect(await faultOf(obtain())).toBe("authority-unreachable");
});

test("a CA that does not answer keeps nobody waiting who has a token", async () => {
  const { token } = await obtain();
  const { promise, resolve } = Promise.withResolvers<void>();
  authority.answering = promise;
  pass(200);
  expect((await obtain()).token).toBe(token);
  resolve();
  await authority.log.until("token-obtained", 2);
  expect((await obtain()).token).not.toBe(token);
});

test("a refusal ends the token that was held", async () => {
  await obtain();
  authority.refusal = new ConnectError("no", Code.PermissionDenied);
  pass(200);
  expect(await faultOf(obtain())).toBe("authority-refused");
});

test.each([6, -3600])(
  "a failure is repeated for seconds without a call, and forgotten after %d s of the clock",
  async (seconds) => {
    authority.refusal = new ConnectError("no", Code.PermissionDenied);
    for (let i = 0; i < 5; i++) expect(await faultOf(obtain())).toBe("authority-refused");
    expect(authority.requests).toHaveLength(1);
    authority.refusal = undefined;
    pass(seconds);
    expect(await faultOf(obtain())).toBe("a token");
  },
);

test.each([
  ["of another workload", { sub: "spiffe://cluster.local/ns/foo/sa/other" }, "identity-mismatch"],
  ["with a foreign audience beside", { aud: ["a", "evil"] }, "answer-malformed"],
  ["for another audience", { aud: ["b"] }, "answer-malformed"],
  ["that has ended", { exp: 1 }, "answer-malformed"],
  ["without an end", { exp: undefined }, "answer-malformed"],
])("an answer %s is refused", async (_, claims, fault) => {
  authority.claims = claims;
  expect(await faultOf(obtain())).toBe(fault);
});

test("a token whose key is withdrawn is replaced, and none of that key is taken again", async () => {
  const [tainted, next] = [authority.key, await createTokenKey("ES256", "key-2")];
  const { token } = await obtain();
  authority.publish(next);
  expect(await faultOf(obtain())).toBe("authority-withdrawn");
  authority.key = next;
  pass(6);
  const replaced = await obtain();
  expect([replaced.token === token, replaced.keyId]).toEqual([false, "key-2"]);
  authority.publish(tainted, next);
  authority.key = tainted;
  expect(await faultOf(obtain("b"))).toBe("a token");
});

test("a node proxy's request names the workload, and a workload's own request names no identity", async () => {
  await obtain();
  expect(authority.requests[0]?.spiffeId).toBe("");
  authority = await createJwtAuthority(true);
  await obtain();
  expect(authority.requests[0]?.spiffeId).toBe(subject);
  const other = workload("foo", "other");
  expect((await authority.jwtSvids.obtain(other, ["a"])).spiffeId).toBe(other);
});

test("a thousand sets of audiences are remembered, and of more the oldest without a request under way goes", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  authority.answering = promise;
  const first = obtain("slow");
  await eventually(() => expect(authority.requests).toHaveLength(1));
  authority.refusal = new ConnectError("no", Code.PermissionDenied);
  // A refusal is remembered like a token, and takes nobody a signature.
  for (let i = 0; i < 1_000; i++) expect(await faultOf(obtain(`${i}`))).toBe("authority-refused");
  const before = authority.requests.length;
  for (const name of ["999", "1"]) await faultOf(obtain(name));
  expect(authority.requests).toHaveLength(before);
  await faultOf(obtain("0"));
  expect(authority.requests).toHaveLength(before + 1);
  const second = obtain("slow");
  resolve();
  expect((await second).token).toBe((await first).token);
});

test("the log names who got what, and has no token", async () => {
  const { token } = await obtain("a", "b");
  const { operations } = authority.log;
  expect(operations.at(-1)).toMatchObject({
    event: "token-obtained",
    spiffeId: subject,
    audiences: "a b",
    keyId: "key-1",
  });
  expect(JSON.stringify(operations)).not.toContain(token.split(".")[2]);
});
