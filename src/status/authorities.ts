import { create } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { AuthorityView } from "../ca/authority-view.ts";
import type { OpenedStore } from "../ca/opened-store.ts";
import { type ForecastEvent, forecastRotation } from "../ca/rotation/forecast.ts";
import { type NextStep, nextStepOf } from "../ca/rotation/next-step.ts";
import {
  NextStep_Act as Act,
  type Authority,
  AuthoritySchema,
  Authority_Kind as Kind,
  Phase,
  type Signer,
  SignerSchema,
  Event_What as What,
} from "../gen/rampart/status/v1/status_pb.ts";
import { type Phase as PhaseName, phaseAt, type Schedule } from "../pki/authority/schedule.ts";
import type { SigningAuthority } from "../pki/authority/signing-authority.ts";
import { applyTaints } from "../pki/authority/taint.ts";
import { fingerprintOf } from "../pki/encoding/fingerprint.ts";

/** Some fields of an authority. */
type Fields = Partial<Omit<Authority, "$typeName" | "$unknown">>;

/** The authorities of a signer, in the order of their publication, and everything that comes. */
export async function signerStatus(name: string, view: AuthorityView, now: Date): Promise<Signer> {
  const { store } = view;
  const authorities = await Promise.all([
    ...store.issuers.map(({ authority }) => authorityStatus(authority, view, now)),
    ...additionalRoots(store, now),
  ]);
  const step = nextStepOf(store);
  return create(SignerSchema, {
    name,
    authorities: authorities.toSorted(
      (a, b) => Number(a.publishedFrom?.seconds ?? 0n) - Number(b.publishedFrom?.seconds ?? 0n),
    ),
    events: eventsOf(store, now),
    ...(step && { nextStep: nextStepStatus(step) }),
  });
}

async function authorityStatus(
  { id, schedule, certificate, publicKey }: SigningAuthority,
  { issuer, store }: AuthorityView,
  now: Date,
): Promise<Authority> {
  return create(AuthoritySchema, {
    id,
    kind: Kind.AUTHORITY,
    signs: issuer?.authority.id === id,
    key: publicKey.algorithm,
    fingerprint: fingerprintOf(certificate.der),
    ...taintOf(store, id),
    ...scheduleStatus(schedule, now),
  });
}

function additionalRoots(store: OpenedStore, now: Date): Authority[] {
  return applyTaints(store.additionalRoots, store.taints).map(({ id, schedule }) =>
    create(AuthoritySchema, {
      id,
      kind: Kind.ADDITIONAL_ROOT,
      fingerprint: id,
      ...taintOf(store, id),
      ...scheduleStatus(schedule, now),
    }),
  );
}

function taintOf({ taints, storedTaints }: OpenedStore, id: string): Fields {
  const times = storedTaints
    .filter((taint) => taint.id === id)
    .map(({ taintedAt }) => taintedAt.getTime());
  return {
    tainted: taints.some((taint) => taint.id === id),
    ...(times.length > 0 && { taintedAt: timestampFromDate(new Date(Math.min(...times))) }),
  };
}

const phasesOfNames: Readonly<Record<PhaseName, Phase>> = {
  future: Phase.FUTURE,
  published: Phase.PUBLISHED,
  signing: Phase.SIGNING,
  verifying: Phase.VERIFYING,
  retired: Phase.RETIRED,
};

function scheduleStatus(schedule: Schedule, now: Date): Fields {
  return {
    phase: phasesOfNames[phaseAt(schedule, now)],
    publishedFrom: timestampFromDate(schedule.publishedFrom),
    signsFrom: timestampFromDate(schedule.signsFrom),
    signsUntil: timestampFromDate(schedule.signsUntil),
    retiresAt: timestampFromDate(schedule.retiresAt),
  };
}

const whats: Readonly<Record<ForecastEvent["event"], What>> = {
  minted: What.MINTED,
  published: What.PUBLISHED,
  signs: What.SIGNS,
  "stops signing": What.STOPS_SIGNING,
  "leaves the bundle": What.LEAVES_BUNDLE,
};

/** An empty store has nothing to rotate, and nothing comes by itself. */
function eventsOf(store: OpenedStore, now: Date) {
  if (store.authorities.length === 0) return [];
  return forecastRotation(store, store.phaseLengths, now).map(({ at, id, event }) => ({
    at: timestampFromDate(at),
    authority: id,
    what: whats[event],
  }));
}

const acts: Readonly<Record<NextStep["act"], Act>> = {
  request: Act.REQUEST,
  install: Act.INSTALL,
  ask: Act.ASK,
};

function nextStepStatus({ act, due, deadline }: NextStep) {
  return {
    act: acts[act],
    ...(due && { due: timestampFromDate(due) }),
    ...(deadline && { deadline: timestampFromDate(deadline) }),
  };
}
