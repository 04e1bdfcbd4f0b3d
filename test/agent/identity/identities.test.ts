import { expect, onTestFinished, test } from "vitest";
import { Identities } from "../../../src/agent/identity/identities.ts";
import type { RefreshingPorts } from "../../../src/agent/identity/refreshing-identity.ts";
import { TrustRoots } from "../../../src/agent/trust/trust-roots.ts";
import { createTestAuthority } from "../../testkit/agent/test-authority.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { workload } from "../../testkit/pki/certificates.ts";
import { eventually } from "../../testkit/time/eventually.ts";

const [bar, baz] = ["bar", "baz"].map((name) => workload("foo", name));
if (!bar || !baz) throw new Error("unreachable");
const [common, ofBaz] = await Promise.all([createTestAuthority("a"), createTestAuthority("b")]);

/** Identities of a CA that does not answer, and the calls that have not ended. */
function identitiesOf() {
  const asked: string[] = [];
  const calls = new Set<string>();
  const log = createEventRecorder();
  const trust = new TrustRoots();
  const identities = new Identities({
    issue: (spiffeId, signal) => {
      asked.push(spiffeId);
      calls.add(spiffeId);
      return new Promise((_, refuse) => {
        const end = (): void => void (calls.delete(spiffeId) && refuse(new Error("ended")));
        signal.addEventListener("abort", () => setImmediate(end));
      });
    },
    trust,
    policy: { graceRatio: 0.5, jitter: 0 },
    clock: () => new Date("2026-11-21T12:00:00Z"),
    random: () => 0,
    log,
    load: async () => undefined,
    store: async () => undefined,
  } as RefreshingPorts);
  onTestFinished(() => identities.end());
  return { identities, asked, trust, calls, log };
}

test("an identity that is added again stays as it is, and is asked for once until it goes", async () => {
  const { identities, asked, calls, log } = identitiesOf();
  const first = identities.add(bar);
  expect(identities.add(bar)).toBe(first);
  identities.add(baz);
  expect(identities.all().map(({ spiffeId }) => spiffeId)).toEqual([bar, baz]);
  await eventually(() => expect(asked).toEqual([bar, baz]));
  identities.remove(bar);
  await eventually(() => expect([...calls]).toEqual([baz]));
  await identities.end();
  expect([...calls, ...log.operations]).toEqual([]);
});

test("an identity that goes takes its roots along, and not those of another", () => {
  const { identities, trust } = identitiesOf();
  const changed: string[] = [];
  identities.changes.add(({ spiffeId }) => changed.push(spiffeId));
  for (const [spiffeId, roots] of [
    [bar, [common]],
    [baz, [common, ofBaz]],
  ] as const) {
    identities.add(spiffeId);
    trust.updateFromAnswer({
      svid: { spiffeId, chain: [] },
      roots: roots.map(({ certificate }) => certificate),
    });
  }
  identities.remove(bar);
  expect(trust.current).toHaveLength(2);
  identities.remove(baz);
  expect(trust.current).toEqual([]);
  expect(changed).toEqual([bar, baz]);
});
