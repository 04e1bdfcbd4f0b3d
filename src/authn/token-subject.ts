import type { Members } from "../foundation/json-members.ts";
import type { Bytes } from "../pki/encoding/bytes.ts";
import type { ServiceAccount } from "../pki/spiffe-id.ts";

/** The names that lead to a claim: one for a claim itself, more for a member of an object in it. */
export type ClaimPath = readonly string[];

/** A claim that an entry demands. */
export interface ClaimCondition {
  readonly path: ClaimPath;
  /** Texts one of which must match. In each, `*` stands for one or more letters, digits, `.`, `_` and `-`. */
  readonly accepted: readonly string[];
}

/** An entry of `subjects`: the tokens that it fits, and the account that they get. */
export interface SubjectEntry {
  readonly name: string;
  readonly conditions: readonly ClaimCondition[];
  /** A literal text, or one with claim paths in braces, which are replaced by the claims. */
  readonly namespace: string;
  readonly account: string;
  /** Whether a token may be used only once. */
  readonly once: boolean;
  /** How long after its `iat` a token is good, whatever its `exp` says. */
  readonly maximumAgeSeconds?: number | undefined;
}

/** The entries of an issuer in their order, and the claims that the audit line and the log record. */
export interface SubjectTable {
  /** The `iss` of the tokens. */
  readonly issuer: string;
  readonly entries: readonly SubjectEntry[];
  readonly recordedClaims: readonly ClaimPath[];
}

/** The subject of a token that is no ServiceAccount's, for policies, denials, audit line and log. */
export interface TokenSubject {
  /** The `sub`. */
  readonly sub: string;
  /** The name of the entry that fitted. */
  readonly entry: string;
  /** The recorded claims that the token has, by their paths. */
  readonly claims: RecordedClaims;
}

/** Claims by their paths, each one text or a list of texts. */
export type RecordedClaims = Readonly<Record<string, string | readonly string[]>>;

/** What an entry gives the bearer of a token. */
export interface MappedSubject {
  readonly account: ServiceAccount;
  readonly tokenSubject: TokenSubject;
  /** Until when the token could be shown again. Present where its entry demands that it is used once. */
  readonly usedOnceUntil?: Date | undefined;
  /**
   * The digest of the entry. A certificate has it in place of the issuer's digest, and can renew nothing once the entry is
   * gone or changed.
   */
  readonly entryDigest: Bytes;
}

/** Maps the claims of an issuer's tokens to accounts, by a compiled table of `subjects`. */
export interface SubjectMapping {
  /** @throws CaError `credential-rejected` (`form`, `time`, `audience`, `subject`). */
  readonly map: (claims: Members, audiences: readonly string[], now: Date) => MappedSubject;
  /** Whether the table has the entry with this digest, unchanged. */
  readonly hasEntry: (entryDigest: Bytes) => boolean;
}
