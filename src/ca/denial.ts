import { Caller } from "../authn/caller.ts";
import { recordedClaim } from "../authn/subject-claims.ts";
import type { TokenSubject } from "../authn/token-subject.ts";
import type { DenialContent } from "../custody/record-kinds.ts";
import { CaError } from "../foundation/errors.ts";
import { nameAllowList } from "../foundation/globs.ts";
import type { BoundAccount } from "../kubernetes/pods.ts";
import { type ServiceAccount, SpiffeId } from "../pki/spiffe-id.ts";

/** The parts of a request for a certificate that denials match. */
export interface DeniableRequest {
  readonly caller: Caller;
  /** The requested identity. */
  readonly spiffeId: SpiffeId;
  /** Whom the certificate is for; `undefined` if a signer of a cluster does not say it. */
  readonly holder: BoundAccount | undefined;
}

/** A denial with its subject parsed, so that requests can be matched against it. */
export interface Denial extends DenialContent {
  /** Whether any attribute of a request matches the subject. */
  readonly concerns: (known: RequestAttributes) => boolean;
  /** The part of a request that shows whether the denial matches. */
  readonly shownBy: "account" | "issuer" | "token" | "claims";
}

/** The attributes of a request that denials match: of the caller, its gateway and the identity it requests. For a certificate in the log, those of its entry. */
export interface RequestAttributes {
  readonly accounts: readonly ServiceAccount[];
  readonly issuers: readonly Readonly<Record<"cluster" | "name", string | undefined>>[];
  readonly bound: readonly {
    readonly pod?: { readonly uid?: string | undefined } | undefined;
    readonly node?: { readonly name: string } | undefined;
    readonly tokenId?: string | undefined;
    readonly tokenSubject?: Pick<TokenSubject, "sub" | "claims"> | undefined;
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
  {
    form: /^subject\/([^\p{Cc}]{1,1024})$/u,
    shownBy: "claims",
    match: (glob = "") => {
      const isSubject = nameAllowList([glob]);
      return ({ bound }) =>
        bound.some(({ tokenSubject }) => tokenSubject && isSubject(tokenSubject.sub));
    },
  },
  {
    form: /^claim\/([^=\p{Cc}]{1,256})=([^\p{Cc}]{1,256})$/u,
    shownBy: "claims",
    match: (name = "", glob = "") => {
      const isValue = nameAllowList([glob]);
      return ({ bound }) =>
        bound.some(({ tokenSubject }) =>
          recordedClaim(tokenSubject?.claims ?? {}, name).some(isValue),
        );
    },
  },
];

/** Parses denials. */
export const Denial = {
  /** The forms that a subject may have, for sentences. */
  forms:
    "spiffe://<trust domain>/ns/<namespace>/sa/<account>, ns/<glob>/sa/<glob>, cluster/<name>, issuer/<url>, node/<name>, pod/<uid>, token/<jti>, subject/<glob> or claim/<name>=<glob>",

  /**
   * Parses the subject of a denial. A trust domain in it is not compared.
   * @returns `undefined` if the subject matches none of {@link Denial.forms}.
   */
  parse(content: DenialContent): Denial | undefined {
    for (const { form, shownBy, match } of kinds) {
      const found = form.exec(content.subject);
      if (found) return { ...content, shownBy, concerns: match(...found.slice(1)) };
    }
    return undefined;
  },
};

/**
 * Refuses a request if a denial matches its caller, the gateway, node proxy or signer that sends it, the holder of the
 * certificate, or the requested identity.
 *
 * A certificate does not show the pod, the node, the token or the claims of its holder. Therefore, while a denial of one
 * of these is in force, a certificate is accepted as a credential only if its last token was accepted after every
 * process had read the denial.
 *
 * @throws CaError `denied`.
 */
export function requireNotDenied(
  denials: readonly Denial[],
  request: DeniableRequest,
  now: Date,
): void {
  if (denials.length === 0) return;
  const attributes = attributesOf(request);
  for (const denial of denials) {
    if (denial.until && denial.until <= now) continue;
    if (denial.concerns(attributes)) {
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

function attributesOf({ caller, spiffeId, holder }: DeniableRequest): RequestAttributes {
  const { gateway } = caller;
  const callers = gateway ? [caller, gateway] : [caller];
  const bound = holder && holder !== caller ? [...callers, holder] : callers;
  const asked = spiffeId === caller.spiffeId ? undefined : SpiffeId.parseWorkload(spiffeId);
  return {
    accounts: [...bound, ...(asked ? [asked] : [])].map(({ account }) => account),
    issuers: callers.flatMap(
      ({ issuer, mayBeProvedBy, provedBy }) => issuer ?? mayBeProvedBy ?? provedBy ?? [],
    ),
    bound,
  };
}

/** Whether a request shows the attribute that a denial is about. A gateway that forwards only names shows no token. */
function isShown(
  { caller, spiffeId, holder }: DeniableRequest,
  { shownBy, knownFrom }: Denial,
): boolean {
  switch (shownBy) {
    case "issuer":
      return true;
    case "account":
      return holder !== undefined || spiffeId !== caller.spiffeId;
    case "claims":
      return (
        !Caller.hidesTokenSubject(caller) ||
        (caller.certificate !== undefined && caller.proof.provedAt > knownFrom)
      );
    case "token":
      if (caller.certificate) return caller.proof.provedAt > knownFrom;
      return holder !== undefined && caller.gateway === undefined;
  }
}

function denied({ subject }: Denial, detail: string): CaError {
  return new CaError({ reason: "denied", subject }, `${detail}: ${subject}`);
}
