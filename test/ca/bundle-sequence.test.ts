import fc from "fast-check";
import { expect, test } from "vitest";
import { Authorities } from "../../src/ca/authorities.ts";
import type { AuthorityView } from "../../src/ca/authority-view.ts";
import { Mint } from "../../src/ca/mint.ts";
import { OpenedStore } from "../../src/ca/opened-store.ts";
import { Rotation } from "../../src/ca/rotation/rotate.ts";
import { sharePromises } from "../../src/node/limits/promise-sharing.ts";
import type { ConfiguredTaint } from "../../src/pki/authority/taint.ts";
import { addSeconds, earlier } from "../../src/pki/x509/validity.ts";
import { createMemoryMint } from "../testkit/ca/memory-mint.ts";
import { createKekRing } from "../testkit/ca/sealed-authorities.ts";

const hour = 3600;
const day = 24 * hour;
const inception = new Date("2026-11-21T08:00:00Z");
const phaseLengths = { propagationSeconds: 600, longestLeafSeconds: hour, signingSeconds: 9 * day };

/** Whom a taint names: of the records of a kind, the oldest is 0. `-1` is the one that was published last. */
const subject = fc.record({
  kind: fc.constantFrom("authorities" as const, "tokenKeys" as const),
  index: fc.constantFrom(-1, 0, 1),
});

interface Subject {
  readonly kind: "authorities" | "tokenKeys";
  readonly index: number;
}

const act = fc.oneof(
  { weight: 4, arbitrary: fc.record({ act: fc.constant("rotate" as const) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      act: fc.constant("line" as const),
      subject,
      until: fc.constantFrom(undefined, -2 * day, -60, 0, 60),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      act: fc.constant("taint" as const),
      subject,
      until: fc.constantFrom(-hour, 0, hour),
    }),
  },
  { weight: 1, arbitrary: fc.record({ act: fc.constant("tokens" as const) }) },
  { weight: 2, arbitrary: fc.record({ act: fc.constant("clear" as const) }) },
);
const step = fc.record({ seconds: fc.constantFrom(1, 60, hour, day, 10 * day, 40 * day), act });

const keks = await createKekRing();

const contentOf = ({ trustBundle, tokenKeys }: AuthorityView): string =>
  [trustBundle.pem, ...tokenKeys.map(({ id }) => id)].join();

test("the sequence never falls, and grows with the content, whatever is tainted, configured and pruned", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
      let policy = {
        phaseLengths,
        authorityRoot: "self" as const,
        configuredTaints: [] as readonly ConfiguredTaint[],
      };
      let tokenAlgorithm: "ES256" | undefined = "ES256";
      const means = createMemoryMint(keks);
      const mint = () => ({ ...means, ...policy, tokenAlgorithm });
      const authorities = Authorities.create({
        ...means,
        ...policy,
        currentPolicy: () => policy,
        publishes: true,
        refreshSeconds: 1,
        surviveOutageSeconds: 0,
        shareWork: sharePromises,
      });
      let now = inception;
      await Rotation.rotate(mint(), now);
      const subjectIn = async ({ kind, index }: Subject) =>
        (await OpenedStore.open(await means.store.load(), mint()))[kind]
          .toSorted(
            (a, b) => a.schedule.publishedFrom.getTime() - b.schedule.publishedFrom.getTime(),
          )
          .at(index);
      let before = await authorities.at(now);
      for (const { seconds, act } of steps) {
        now = addSeconds(now, seconds);
        if (act.act === "rotate") await Rotation.rotate(mint(), now);
        if (act.act === "tokens") tokenAlgorithm = tokenAlgorithm ? undefined : "ES256";
        if (act.act === "clear") policy = { ...policy, configuredTaints: [] };
        if (act.act === "line" || act.act === "taint") {
          const found = await subjectIn(act.subject);
          if (found && act.act === "line") {
            const rootUntil = act.until === undefined ? undefined : addSeconds(now, act.until);
            const line = { idPrefix: found.id, rootUntil };
            policy = { ...policy, configuredTaints: [...policy.configuredTaints, line] };
          } else if (found) {
            const { id, schedule } = found;
            const at = addSeconds(now, act.subject.kind === "tokenKeys" ? 0 : (act.until ?? 0));
            // The verb takes a key that has gone already.
            const retiresAt =
              act.subject.kind === "tokenKeys" ? at : earlier(at, schedule.retiresAt);
            await Mint.recordTaint(means, { id, taintedAt: now, retiresAt });
          }
        }
        const after = await authorities.at(now);
        if (contentOf(before) === contentOf(after))
          expect(after.sequence).toBeGreaterThanOrEqual(before.sequence);
        else expect(after.sequence).toBeGreaterThan(before.sequence);
        before = after;
      }
    }),
    { numRuns: 25 },
  );
});
