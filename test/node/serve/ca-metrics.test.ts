import { expect, test } from "vitest";
import type { AppendOnlyLog, LogMode } from "../../../src/ca/issuance/issuance-log.ts";
import { Mint } from "../../../src/ca/mint.ts";
import { CaError } from "../../../src/foundation/errors.ts";
import { addAuthorityGauges, countingLog } from "../../../src/node/serve/ca-metrics.ts";
import { Metrics } from "../../../src/program/metrics.ts";
import {
  decideTaint,
  passUntil,
  refresh,
  startWithSuccessor,
} from "../../testkit/ca/tainted-ca.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";

test("the gauge of the successor shows when it begins to sign, and never a tainted one", async () => {
  const { ca, successor } = await startWithSuccessor();
  const registry = Metrics.create();
  addAuthorityGauges(registry, () => ca.certificateAuthority.issuance, ca.now);
  const signsFrom = async (): Promise<number | undefined> => {
    const gauge = registry.getSingleMetric("rampart_successor_signs_from_timestamp");
    return (await gauge?.get())?.values[0]?.value;
  };
  expect(await signsFrom()).toBe(successor.schedule.signsFrom.getTime() / 1000);
  await Mint.recordTaint(ca.mint, await decideTaint(ca, "with-last-leaf", successor.id));
  ca.pass(refresh);
  expect(await signsFrom()).toBeNaN();
});

const metricsOf = async (
  issuance: ReturnType<Parameters<typeof addAuthorityGauges>[1]>,
  now = () => new Date(),
): Promise<string> => {
  const registry = Metrics.create();
  addAuthorityGauges(registry, () => issuance, now);
  return registry.metrics();
};

test("a CA that cannot read its store is not ready, and the other gauges have no number", async () => {
  const at = (): never => {
    throw new CaError({ reason: "store-unreachable" }, "the store cannot be read");
  };
  const metrics = await metricsOf({ authorities: { at, renew: async () => {} } });
  expect(metrics).toMatch(/^rampart_ready 0$/m);
  expect(metrics).toMatch(/^rampart_trust_bundle_roots Nan$/im);
  const broken = { authorities: { at: () => Promise.reject(new Error("a defect")) } };
  await expect(metricsOf(broken as never)).rejects.toThrow("a defect");
});

test("a CA is not ready while a log that is required takes no entry", async () => {
  const { ca } = await startWithSuccessor();
  const { authorities } = ca.certificateAuthority.issuance;
  const logOf = (mode: LogMode): AppendOnlyLog => ({
    mode,
    refusal: () => "disk full",
    troubles: () => ["disk full"],
    append: () => Promise.reject(new Error("disk full")),
  });
  const readyWith = async (mode: LogMode): Promise<boolean> =>
    /^rampart_ready 1$/m.test(await metricsOf({ authorities, issuanceLog: logOf(mode) }, ca.now));
  expect(await readyWith("required")).toBe(false);
  expect(await readyWith("best-effort")).toBe(true);
});

test("a CA is not ready while no token can be verified, and its gauges are those of who signs", async () => {
  const { ca, successor } = await startWithSuccessor();
  passUntil(ca, successor.schedule.signsFrom);
  const { authorities } = ca.certificateAuthority.issuance;
  const keyFault = async () => "no issuer's keys can be had";
  const metrics = await metricsOf({ authorities, keyFault }, ca.now);
  expect(metrics).toMatch(/^rampart_ready 0$/m);
  const instant = (name: string): Date =>
    new Date(1000 * Number(new RegExp(`^${name}_timestamp (.*)$`, "m").exec(metrics)?.[1]));
  const { notAfter } = successor.certificate.toBeSigned.validity;
  expect(instant("citadel_server_cert_chain_expiry")).toEqual(notAfter);
  expect(instant("rampart_signs_until")).toEqual(successor.schedule.signsUntil);
  const firstRoot = instant("citadel_server_root_cert_expiry");
  expect(firstRoot.getTime()).toBeLessThan(notAfter.getTime());
  const left = /^citadel_server_root_cert_expiry_seconds (.*)$/m.exec(metrics)?.[1];
  expect(Number(left)).toBe((firstRoot.getTime() - ca.now().getTime()) / 1000);
});

test.each([
  ["log-unavailable", 'csr_sign_err_count{error="CA_NOT_READY"}'],
  ["store-unreachable", 'csr_sign_err_count{error="CA_NOT_READY"}'],
  ["fault", 'csr_sign_err_count{error="CERT_GEN_ERROR"}'],
  ["too-many-waiting", 'csr_sign_err_count{error="UNKNOWN"}'],
  ["denied", "authentication_failure_count"],
  ["policy-denied", "authentication_failure_count"],
] as const)("a call that fails by %s counts as %s", async (reason, name) => {
  const registry = Metrics.create();
  const log = countingLog(createEventRecorder(), registry);
  log.audit({ event: "create-certificate", outcome: "failed", requestId: "1", reason });
  expect(await registry.metrics()).toContain(`citadel_server_${name} 1`);
});

test("decisions of a policy count by rule and effect, and those in shadow by themselves", async () => {
  const registry = Metrics.create();
  const log = countingLog(createEventRecorder(), registry);
  const call = { event: "create-certificate", outcome: "issued", requestId: "1" } as const;
  log.audit(call);
  log.audit({ ...call, rule: "short", effect: "shortened" });
  log.audit({ ...call, rule: "short", effect: "same", shadowRule: "new", shadowEffect: "denied" });
  const lines = (await registry.metrics())
    .split("\n")
    .filter((line) => /^rampart_policy/.test(line));
  expect(lines).toEqual([
    'rampart_policy_decisions_total{rule="short",effect="shortened"} 1',
    'rampart_policy_decisions_total{rule="short",effect="same"} 1',
    'rampart_policy_shadow_total{rule="new",effect="denied"} 1',
  ]);
});
