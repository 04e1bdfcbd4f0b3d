import type { Caller } from "../authn/caller.ts";
import type { DenialContent } from "../custody/record-kinds.ts";
import { CaError } from "../foundation/errors.ts";
import { nameAllowList } from "../foundation/globs.ts";
import { parseWorkloadSpiffeId, type ServiceAccount, type SpiffeId } from "../pki/spiffe-id.ts";

/** A denial, ready to be held against requests. */
export interface Denial extends DenialContent {
  /** Whether the description fits what is known of a caller, or the identity that it asks for. */
  readonly concerns: (subject: Subject) => boolean;
  /** Whether only a token shows what the description names. A certificate does not hold it. */
  readonly isShownByTokens: boolean;
}

/** A caller, with its own account and that of the identity that it asks for, read once for all denials. */
interface Subject {
  readonly caller: Caller;
  readonly accounts: readonly ServiceAccount[];
}

type Match = Denial["concerns"];

const kinds: readonly {
  readonly form: RegExp;
  readonly isShownByTokens: boolean;
  readonly match: (...parts: string[]) => Match;
}[] = [
  {
    form: /^(?:spiffe:\/\/[a-z0-9._-]{1,255}\/)?ns\/([a-z0-9*-]{1,63})\/sa\/([a-z0-9.*-]{1,253})$/,
    isShownByTokens: false,
    match: (namespace = "", account = "") => {
      const isNamespace = nameAllowList([namespace]);
      const isAccount = nameAllowList([account]);
      return ({ accounts }) =>
        accounts.some((account) => isNamespace(account.namespace) && isAccount(account.name));
    },
  },
  {
    form: /^cluster\/([A-Za-z0-9._/-]{1,253})$/,
    isShownByTokens: false,
    match: (cluster) => {
      return ({ caller: { issuer, provedBy } }) => (issuer ?? provedBy)?.cluster === cluster;
    },
  },
  {
    form: /^node\/([a-z0-9.-]{1,253})$/,
    isShownByTokens: true,
    match: (name) => {
      return ({ caller }) => caller.node?.name === name;
    },
  },
  {
    form: /^pod\/([A-Za-z0-9-]{1,64})$/,
    isShownByTokens: true,
    match: (uid) => {
      return ({ caller }) => caller.pod?.uid === uid;
    },
  },
  {
    form: /^token\/([\x21-\x7e]{1,128})$/,
    isShownByTokens: true,
    match: (id) => {
      return ({ caller }) => caller.tokenId === id;
    },
  },
];

/** The forms of a description, for sentences. */
export const deniedForms =
  "spiffe://<trust domain>/ns/<namespace>/sa/<account>, ns/<glob>/sa/<glob>, cluster/<name>, node/<name>, pod/<uid> or token/<jti>";

/** The denial of a content; `undefined` if its description has none of the known forms. */
export function toDenial(content: DenialContent): Denial | undefined {
  for (const { form, isShownByTokens, match } of kinds) {
    const found = form.exec(content.subject);
    if (found) return { ...content, isShownByTokens, concerns: match(...found.slice(1)) };
  }
  return undefined;
}

/**
 * Refuses a request that a denial is about. It may be about the caller, the gateway or node proxy that asks,
 * or the identity asked for.
 *
 * Nothing in a certificate tells the pod, the node and the token of its holder. So while such a denial
 * stands, a certificate suffices only if a token was accepted after every process knew of the denial.
 *
 * @throws CaError `denied`.
 */
export function requireNotDenied(
  denials: readonly Denial[],
  caller: Caller,
  spiffeId: SpiffeId,
  now: Date,
): void {
  if (denials.length === 0) return;
  const subjects = [caller, ...(caller.gateway ? [caller.gateway] : [])].map((each) =>
    subjectOf(each, spiffeId),
  );
  for (const denial of denials) {
    if (denial.until && denial.until <= now) continue;
    if (subjects.some(denial.concerns)) {
      throw denied(denial, "an operator denies the caller certificates");
    }
    if (denial.isShownByTokens && !isShownBy(caller, denial)) {
      throw denied(denial, "no token that is younger than a denial stands behind the caller");
    }
  }
}

function subjectOf(caller: Caller, spiffeId: SpiffeId): Subject {
  const ids = caller.spiffeId === spiffeId ? [spiffeId] : [spiffeId, caller.spiffeId];
  return { caller, accounts: ids.flatMap((id) => parseWorkloadSpiffeId(id)?.account ?? []) };
}

/** A gateway that forwards names alone shows nothing of what stands behind them. */
function isShownBy({ certificate, gateway, proof }: Caller, { knownFrom }: Denial): boolean {
  if (certificate) return proof.provedAt > knownFrom;
  return gateway === undefined;
}

function denied({ subject }: Denial, detail: string): CaError {
  return new CaError({ reason: "denied", subject }, `${detail}: ${subject}`);
}
