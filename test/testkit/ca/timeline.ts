import type { PhaseLengths, Schedule } from "../../../src/pki/authority/schedule.ts";
import type { SigningAuthority } from "../../../src/pki/authority/signing-authority.ts";
import type { Taint } from "../../../src/pki/authority/taint.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { authorityStub } from "../pki/certificates.ts";

const origin = new Date("2026-11-21T12:00:00.000Z");

/** The instant this many seconds after the origin of time in these tests. */
export const second = (seconds: number): Date => addSeconds(origin, seconds);

/** The seconds from that origin to an instant. */
export const secondOf = (instant: Date): number => (instant.getTime() - origin.getTime()) / 1000;

/** The seconds at which the phases of a schedule begin. */
export type Phases = readonly [number, number, number, number];

const scheduleOf = ([publishedFrom, signsFrom, signsUntil, retiresAt]: Phases): Schedule => ({
  publishedFrom: second(publishedFrom),
  signsFrom: second(signsFrom),
  signsUntil: second(signsUntil),
  retiresAt: second(retiresAt),
});

export const phasesOf = (schedule: Schedule): Phases => [
  secondOf(schedule.publishedFrom),
  secondOf(schedule.signsFrom),
  secondOf(schedule.signsUntil),
  secondOf(schedule.retiresAt),
];

/** An authority without a certificate, with one root of its own unless others are given. */
export const stub = (id: string, phases: Phases, roots = [id]): SigningAuthority =>
  authorityStub(id, scheduleOf(phases), roots);

/** Round phase lengths: a root leaves 110 s after the last signature, a successor takes 120 s. */
export const shortLengths: PhaseLengths = {
  propagationSeconds: 10,
  longestLeafSeconds: 100,
  signingSeconds: 1000,
};

/** Taints as text, such as `aa 750 860, bb 760`: an id, when it is tainted, and when its root leaves, if that is later. */
export const taintsIn = (text: string): Taint[] =>
  [...text.matchAll(/(\w+) (\S+?)(?: (\S+?))?(?:, |$)/g)].map(([, id = "", at, end = at]) => ({
    id,
    taintedAt: second(Number(at)),
    retiresAt: second(Number(end)),
  }));
