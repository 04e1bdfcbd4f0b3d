import { expect, test } from "vitest";
import { recordTaint } from "../../../src/ca/rotation/taint.ts";
import { CaError } from "../../../src/foundation/errors.ts";
import { addAuthorityGauges } from "../../../src/node/serve/ca-metrics.ts";
import { createRegistry } from "../../../src/program/metrics.ts";
import { decideTaint, refresh, startWithSuccessor } from "../../testkit/ca/tainted-ca.ts";

test("the gauge of the successor shows when it begins to sign, and never a tainted one", async () => {
  const { ca, successor } = await startWithSuccessor();
  const registry = createRegistry();
  addAuthorityGauges(registry, ca.certificateAuthority.issuance.authorities, ca.now);
  const signsFrom = async (): Promise<number | undefined> => {
    const gauge = registry.getSingleMetric("rampart_successor_signs_from_timestamp");
    return (await gauge?.get())?.values[0]?.value;
  };
  expect(await signsFrom()).toBe(successor.schedule.signsFrom.getTime() / 1000);
  await recordTaint(ca.mint, await decideTaint(ca, "with-last-leaf", successor.id));
  ca.pass(refresh);
  expect(await signsFrom()).toBeNaN();
});

test("an unreadable store leaves its gauges without a number, and the other metrics complete", async () => {
  const registry = createRegistry();
  const at = (): never => {
    throw new CaError({ reason: "store-unreachable" }, "the store cannot be read");
  };
  addAuthorityGauges(registry, { at, renew: async () => {} }, () => new Date());
  expect(await registry.metrics()).toMatch(/^rampart_ready Nan$/im);
});
