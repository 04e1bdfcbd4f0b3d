import type { Bytes } from "../../encoding/bytes.ts";
import { relativeNamesOf } from "../../x509/internal/distinguished-name.ts";

/** The constraints of one certificate (RFC 5280 §4.2.1.10); an absent list is an empty one. */
export interface NameConstraints {
  readonly permitted: readonly GeneralName[];
  readonly excluded: readonly GeneralName[];
}

/**
 * Whether name constraints allow URIs of this host, for every verifier. To RFC 5280, a constraint on a host is on that
 * host alone; to Go, also on the hosts below it. So a host must be permitted by both readings, and is excluded by either.
 */
export function admitsHost(constraints: NameConstraints, host: string): boolean {
  const isHost = ({ text }: GeneralName): boolean => isExactly(text, host);
  return admits(constraints, "uri", isHost, (base) => isHost(base) || isBelow(base.text, host));
}

/** Whether name constraints allow this subject, DER. A constraint is on every subject that begins with its parts. */
export function admitsSubject(constraints: NameConstraints, subject: Bytes): boolean {
  const own = relativeNamesOf(subject);
  const contains = ({ relativeNames }: GeneralName): boolean =>
    relativeNames.every((part, i) => part === own[i]);
  return admits(constraints, "directory", contains);
}

/**
 * Whether name constraints allow a name in the certificate of an authority below (RFC 5280 §6.1.4 (b)), for every
 * verifier. A constraint on another kind than URI or DNS forbids every name of that kind: no CA of a mesh has one.
 */
export function admitsName(constraints: NameConstraints, { kind, text }: GeneralName): boolean {
  const { permitted, excluded } = constraints;
  if (kind === "uri") return admitsHost(constraints, hostOf(text));
  if (kind !== "dns") return [...permitted, ...excluded].every((base) => base.kind !== kind);
  const name = text.toLowerCase();
  const contains = ({ text: base }: GeneralName): boolean =>
    isExactly(base, name) || isBelow(base, name);
  return admits(constraints, kind, contains);
}

/** Whether a name is permitted by one of the constraints on its kind, or there are none, and excluded by none. */
function admits(
  { permitted, excluded }: NameConstraints,
  kind: NameKind,
  isPermittedBy: (base: GeneralName) => boolean,
  isExcludedBy: (base: GeneralName) => boolean = isPermittedBy,
): boolean {
  const isOfKind = (base: GeneralName): boolean => base.kind === kind;
  const bases = permitted.filter(isOfKind);
  const isPermitted = bases.length === 0 || bases.some(isPermittedBy);
  return isPermitted && !excluded.filter(isOfKind).some(isExcludedBy);
}

const hostOf = (uri: string): string => /^[^:]+:\/\/([^/:?#]*)/.exec(uri)?.[1]?.toLowerCase() ?? "";

/** Whether a base is this host. An empty base is every host (Go); one with a leading dot is every host below it. */
function isExactly(base: string, host: string): boolean {
  const wanted = base.toLowerCase();
  return wanted === "" || wanted === host || (wanted.startsWith(".") && host.endsWith(wanted));
}

const isBelow = (base: string, host: string): boolean => host.endsWith(`.${base.toLowerCase()}`);

/** The kinds of name that a verifier of a mesh compares, and all others. */
export type NameKind = "email" | "dns" | "uri" | "ip" | "directory" | "other";

/** One GeneralName (RFC 5280 §4.2.1.6). */
export interface GeneralName {
  readonly kind: NameKind;
  /** The text of an email, DNS or URI name; empty for every other kind. */
  readonly text: string;
  /** The number of content octets. */
  readonly octets: number;
  /** The parts of a directory name, as {@link relativeNamesOf} gives them; empty for every other kind. */
  readonly relativeNames: readonly string[];
}
