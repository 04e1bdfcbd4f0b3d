import type { Caller } from "../authn/caller.ts";
import type { DenialContent } from "../custody/record-kinds.ts";
import { CaError } from "../foundation/errors.ts";
import { nameAllowList } from "../foundation/globs.ts";
import type { BoundAccount } from "../kubernetes/pods.ts";
import { parseWorkloadSpiffeId, type ServiceAccount, type SpiffeId } from "../pki/spiffe-id.ts";

/** A request for a certificate, as denials judge it. */
export interface DeniableRequest {
  readonly caller: Caller;
  /** The identity that is asked for. */
  readonly spiffeId: SpiffeId;
  /** Whom the certificate is for; `undefined` where a signer of a cluster does not say so. */
  readonly holder: BoundAccount | undefined;
}

/** A denial, ready to be held against requests. */
export interface Denial extends DenialContent {
  /** Whether the description fits anything that is known of a request. */
  readonly concerns: (known: Known) => boolean;
  /** What shows whether the description fits. */
  readonly shownBy: "account" | "issuer" | "token";
}

/** What is known of a caller, its gateway, and whom it asks for, or of a certificate in the log. */
export interface Known {
  readonly accounts: readonly ServiceAccount[];
  readonly issuers: readonly Readonly<Record<"cluster" | "name", string | undefined>>[];
  readonly bound: readonly {
    readonly pod?: { readonly uid?: string | undefined } | undefined;
    readonly node?: { readonly name: string } | undefined;
    readonly tokenId?: string | undefined;
  }[];
}

const kinds: readonly {
  readonly form: RegExp;
  readonly shownBy: Denial["shownBy"];
  readonly match: (...parts: string[]) => Denial["concerns"];
}[] = [
  {
    form: /^(?:spiffe:\/\/[a-z0-9._-]{1,255}\/)?ns\/([a-z0-9*-]{1,63})\/sa\/([a-z0-9.*-]{1,253})$/,
    shownBy: "account",
    match: (namespace = "", account = "") => {
      const isNamespace = nameAllowList([namespace]);
      const isAccount = nameAllowList([account]);
      return ({ accounts }) =>
        accounts.some((account) => isNamespace(account.namespace) && isAccount(account.name));
    },
  },
  {
    form: /^cluster\/([A-Za-z0-9._/-]{1,253})$/,
    shownBy: "issuer",
    match: (name) => {
      return ({ issuers }) => issuers.some(({ cluster }) => cluster === name);
    },
  },
  {
    form: /^issuer\/([\x21-\x7e]{1,1024})$/,
    shownBy: "issuer",
    match: (name) => {
      return ({ issuers }) => issuers.some((issuer) => issuer.name === name);
    },
  },
  {
    form: /^node\/([a-z0-9.-]{1,253})$/,
    shownBy: "token",
    match: (name) => {
      return ({ bound }) => bound.some(({ node }) => node?.name === name);
    },
  },
  {
    form: /^pod\/([A-Za-z0-9-]{1,64})$/,
    shownBy: "token",
    match: (uid) => {
      return ({ bound }) => bound.some(({ pod }) => pod?.uid === uid);
    },
  },
  {
    form: /^token\/([\x21-\x7e]{1,128})$/,
    shownBy: "token",
    match: (id) => {
      return ({ bound }) => bound.some(({ tokenId }) => tokenId === id);
    },
  },
];

/** The forms of a description, for sentences. */
export const deniedForms =
  "spiffe://<trust domain>/ns/<namespace>/sa/<account>, ns/<glob>/sa/<glob>, cluster/<name>, issuer/<url>, node/<name>, pod/<uid> or token/<jti>";

/** The denial of a content; `undefined` if its description has none of the known forms. */
export function toDenial(content: DenialContent): Denial | undefined {
  for (const { form, shownBy, match } of kinds) {
    const found = form.exec(content.subject);
    if (found) return { ...content, shownBy, concerns: match(...found.slice(1)) };
  }
  return undefined;
}

/**
 * Refuses a request that a denial is about. It may be about the caller, the gateway, node proxy or signer that
 * asks, whom it asks for, or the identity asked for.
 *
 * Nothing in a certificate tells the pod, the node and the token of its holder. So while such a denial
 * stands, a certificate suffices only if a token was accepted after every process knew of the denial.
 *
 * @throws CaError `denied`.
 */
export function requireNotDenied(
  denials: readonly Denial[],
  request: DeniableRequest,
  now: Date,
): void {
  if (denials.length === 0) return;
  const known = knownOf(request);
  for (const denial of denials) {
    if (denial.until && denial.until <= now) continue;
    if (denial.concerns(known)) {
      throw denied(denial, "an operator denies the caller certificates");
    }
    if (!isShown(request, denial)) {
      throw denied(
        denial,
        "nothing shows that the certificate is for nobody whom a denial is about",
      );
    }
  }
}

function knownOf({ caller, spiffeId, holder }: DeniableRequest): Known {
  const { gateway } = caller;
  const callers = gateway ? [caller, gateway] : [caller];
  const bound = holder && holder !== caller ? [...callers, holder] : callers;
  const asked = spiffeId === caller.spiffeId ? undefined : parseWorkloadSpiffeId(spiffeId);
  return {
    accounts: [...bound, ...(asked ? [asked] : [])].map(({ account }) => account),
    issuers: callers.flatMap(
      ({ issuer, mayBeProvedBy, provedBy }) => issuer ?? mayBeProvedBy ?? provedBy ?? [],
    ),
    bound,
  };
}

/** Whether a request shows all that a denial asks for. A gateway that forwards names alone shows no token. */
function isShown(
  { caller, spiffeId, holder }: DeniableRequest,
  { shownBy, knownFrom }: Denial,
): boolean {
  switch (shownBy) {
    case "issuer":
      return true;
    case "account":
      return holder !== undefined || spiffeId !== caller.spiffeId;
    case "token":
      if (caller.certificate) return caller.proof.provedAt > knownFrom;
      return holder !== undefined && caller.gateway === undefined;
  }
}

function denied({ subject }: Denial, detail: string): CaError {
  return new CaError({ reason: "denied", subject }, `${detail}: ${subject}`);
}
