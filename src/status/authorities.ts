import type { OpenedStore } from "../ca/opened-store.ts";
import { Forecast, type ForecastEvent } from "../ca/rotation/forecast.ts";
import { NextStep } from "../ca/rotation/next-step.ts";
import { type Phase, Schedule } from "../pki/authority/schedule.ts";
import { SigningAuthority } from "../pki/authority/signing-authority.ts";
import { Taint } from "../pki/authority/taint.ts";
import { fingerprintOf } from "../pki/encoding/bytes.ts";

/** One authority, or one root that is trusted beside them. */
export interface AuthorityStatus {
  readonly id: string;
  readonly kind: "authority" | "additional root";
  readonly phase: Phase;
  /** Whether it signs now. Only one authority does: once a successor signs, the others only verify, whatever their schedules say. */
  readonly signs: boolean;
  readonly isTainted: boolean;
  /** When it was tainted; `undefined` if it was not, or only by the configuration, which states no instant. */
  readonly taintedAt: Date | undefined;
  /** The kind of its key; `undefined` for an additional root. */
  readonly key: string | undefined;
  /** The hexadecimal SHA-256 of the certificate. */
  readonly fingerprint: string;
  /** The schedule after taints, and after a successor has taken over. */
  readonly schedule: Schedule;
}

/** The authorities of one signer, and what its rotation will do. */
export interface SignerStatus {
  /** Empty for the authorities that sign for callers that name no signer. */
  readonly name: string;
  /** The authorities and additional roots in the order of their publication. */
  readonly authorities: readonly AuthorityStatus[];
  /** What will happen if no operator acts, the soonest first. Empty for an empty store. */
  readonly events: readonly ForecastEvent[];
  /** The next step of an operator; present only under another CA's root. */
  readonly nextStep: NextStep | undefined;
  /** A sentence if the store has authorities and none of them can be opened. */
  readonly unopened: string | undefined;
}

/** Reports signers. */
export const SignerStatus = {
  /** Reports the authorities of a named signer, and what its rotation will do. */
  of(name: string, store: OpenedStore, now: Date): SignerStatus {
    const isEmpty = store.authorities.length === 0;
    return {
      name,
      authorities: AuthorityStatus.allIn(store, now),
      events: isEmpty ? [] : Forecast.rotation(store, store.phaseLengths, now),
      nextStep: NextStep.of(store),
      unopened: AuthorityStatus.unopenedIn(store),
    };
  },

  /** Whether a step of an operator is due now. One without a date always is. */
  isStepDue: ({ due }: NextStep, now: Date): boolean => !due || due <= now,
};

/** The authorities of a store. */
export const AuthorityStatus = {
  /** Why none of the authorities in a store can be opened, in one sentence; `undefined` if one can or there is none. */
  unopenedIn(store: OpenedStore): string | undefined {
    const { authorities, refusals } = store;
    const refused = refusals.filter(({ kind }) => kind === "authority").length;
    if (authorities.length > 0 || refused === 0) return undefined;
    const records =
      refused === 1 ? "1 record of an authority" : `${refused} records of authorities`;
    return `The store holds ${records}, and none opens with this KEK.`;
  },

  /** Every authority and additional root whose record opens, retired ones too, in the order of their publication. */
  allIn(store: OpenedStore, now: Date): readonly AuthorityStatus[] {
    const { openAuthorities, additionalRoots, taints } = store;
    const own = openAuthorities.map(({ authority }) => authority);
    const signer = SigningAuthority.at(own, now);
    const authorities = own.map(({ id, schedule: planned, certificate, publicKey }) => {
      const signs = id === signer?.id;
      const schedule = signs ? planned : supersededBy(signer, planned, now);
      return {
        id,
        kind: "authority" as const,
        phase: Schedule.phaseAt(schedule, now),
        signs,
        ...taintOf(store, id),
        key: publicKey.algorithm,
        fingerprint: fingerprintOf(certificate.der),
        schedule,
      };
    });
    const roots = Taint.apply(additionalRoots, taints).map(({ id, schedule }) => ({
      id,
      kind: "additional root" as const,
      phase: Schedule.phaseAt(schedule, now),
      signs: false,
      ...taintOf(store, id),
      key: undefined,
      fingerprint: id,
      schedule,
    }));
    return [...authorities, ...roots].toSorted(
      (a, b) => a.schedule.publishedFrom.getTime() - b.schedule.publishedFrom.getTime(),
    );
  },
};

/** The schedule of another authority than `signer`, which signs now: its signing phase ends where that of `signer` begins. */
function supersededBy(
  signer: SigningAuthority | undefined,
  planned: Schedule,
  now: Date,
): Schedule {
  if (!signer || Schedule.phaseAt(planned, now) !== "signing") return planned;
  return { ...planned, signsUntil: signer.schedule.signsFrom };
}

function taintOf(
  { taints, storedTaints }: OpenedStore,
  id: string,
): Pick<AuthorityStatus, "isTainted" | "taintedAt"> {
  return {
    isTainted: taints.some((taint) => taint.id === id),
    taintedAt: storedTaints
      .filter((taint) => taint.id === id)
      .map((taint) => taint.taintedAt)
      .toSorted((a, b) => a.getTime() - b.getTime())[0],
  };
}

/** What a next step does, and the command for it; without a command, the CA does it. */
interface NextAct {
  readonly what: string;
  readonly command?: string;
}

/** The words for the next step under another CA's root. */
export const nextActs: Readonly<Record<NextStep["act"], NextAct>> = {
  request: { what: "request the next intermediate", command: "rampart authority request" },
  install: {
    what: "install the certificate of the open request",
    command: "rampart authority install chain.pem",
  },
  ask: { what: "the cron asks the CA upstream for the next intermediate" },
};
