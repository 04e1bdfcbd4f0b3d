import { DnsName } from "../foundation/addresses.ts";
import { rejectCredential } from "../foundation/errors.ts";
import type { Members } from "../foundation/json-members.ts";
import { type Bytes, Hex } from "../pki/encoding/bytes.ts";
import { RegisteredClaims } from "../pki/jose/registered-claims.ts";
import { ServiceAccount } from "../pki/spiffe-id.ts";
import { IdentityProof } from "../pki/x509/leaf/identity-proof.ts";
import type {
  ClaimPath,
  RecordedClaims,
  SubjectEntry,
  SubjectMapping,
  SubjectTable,
} from "./token-subject.ts";

/**
 * Reads a path as TOML writes a dotted key: `environment`, `a.b`, or `'https://sts.amazonaws.com/'.aws_account`, where
 * quotation marks of either kind stand around a name that has dots itself.
 *
 * @returns `undefined` for any other text, and for more than 8 names or 256 characters.
 */
export function parseClaimPath(text: string): ClaimPath | undefined {
  const quoted = text.match(/'[^']+'|"[^"]+"|[^.'"]+/g) ?? [];
  const isWhole = quoted.join(".") === text && quoted.length <= 8 && text.length <= 256;
  const names = quoted.map((name) => name.replace(/^(['"])(.*)\1$/s, "$2"));
  const isPath = isWhole && names.length > 0 && names.every((name) => claimName.test(name));
  return isPath ? names : undefined;
}

/** A name in a path, and then of a JSON member: such a name must not begin with an escape, and zod drops `__proto__`. */
const claimName = /^(?!__proto__$)[^"'{}\\\p{Cc}\p{Cs}]+$/u;

/** Formats a path for {@link parseClaimPath}. A name with dots gets single quotation marks, which JSON does not escape. */
export const claimPathText = (path: ClaimPath): string =>
  path.map((name) => (name.includes(".") ? `'${name}'` : name)).join(".");

/** Reads the texts of a recorded claim: one, all elements of a list, or none where the token lacks the claim. */
export const recordedClaim = (claims: RecordedClaims, name: string): readonly string[] =>
  Object.hasOwn(claims, name) ? listOf(claims[name]) : [];

/** A claim as text; several of a list; `undefined` if it is missing, or neither text, boolean nor whole number. */
type Value = string | readonly string[] | undefined;

const listOf = (value: Value): readonly string[] => [value ?? []].flat();

/** The characters that a star matches. A structured subject is separated into parts by any other character. */
const starred = "[A-Za-z0-9._-]+";

/**
 * Compiles the entries of an issuer. Each claim that any of them names is read once for a token, and only entries that
 * share a literal text with the token are compared with it, whatever the number of entries. The first entry that fits
 * decides alone: if it refuses the token's age, or a claim for a name, no other is tried.
 */
export function createSubjectMapping({
  issuer,
  entries,
  recordedClaims,
}: SubjectTable): SubjectMapping {
  const paths = new Map<string, readonly [number, ClaimPath]>();
  const indexOf = (path: ClaimPath): number => {
    const key = claimPathText(path);
    const [index] = paths.get(key) ?? [paths.size];
    paths.set(key, [index, path]);
    return index;
  };
  const compiled = entries.map((entry) => compile(entry, issuer, indexOf));
  const mayFit = createEntryIndex(entries, indexOf);
  const allPaths = [...paths.values()].map(([, path]) => path);
  const digests = new Set(compiled.map(({ digest }) => Hex.format(digest)));
  return {
    map: (claims, audiences, now) => {
      RegisteredClaims.requireTime(claims, now);
      requireOwnAudience(claims, audiences);
      const { sub } = claims;
      if (!RegisteredClaims.isText(sub))
        throw rejectCredential("form", "sub is missing, or no text");
      const values = allPaths.map((path) => textsOf(memberAt(claims, path)));
      const isFit = (place: number) => compiled[place]?.tests.every(({ fits }) => fits(values));
      const place = mayFit(values).find(isFit);
      const entry = place === undefined ? undefined : compiled[place];
      if (!entry) throw rejectCredential("subject", whyNone(compiled, values));
      requireAge(entry, claims, now);
      return {
        account: entry.accountOf(values),
        tokenSubject: { sub, entry: entry.name, claims: recordOf(recordedClaims, claims) },
        usedOnceUntil: entry.once ? new Date(Number(claims["exp"]) * 1000) : undefined,
        entryDigest: entry.digest,
      };
    },
    hasEntry: (digest) => digests.has(Hex.format(digest)),
  };
}

/** The whole of a claim, one part of it (from 0 on), or its first characters. */
type Section = readonly ["whole"] | readonly ["part", number] | readonly ["start", number];

/** An entry fits only if this section of the claim is one of these literal texts. */
interface Literals {
  readonly claim: number;
  readonly section: Section;
  readonly texts: readonly string[];
}

/**
 * Indexes each entry by the literal texts that it shares with the fewest other entries.
 *
 * @returns A function that finds the entries that a token with these values may fit: their positions, in order.
 */
function createEntryIndex(
  entries: readonly SubjectEntry[],
  indexOf: (path: ClaimPath) => number,
): (values: readonly Value[]) => readonly number[] {
  const literals = entries.map(({ conditions }) =>
    conditions.flatMap(({ path, accepted }) => literalsOf(indexOf(path), accepted)),
  );
  const counts = new Map<string, number>();
  const countOf = (key: string): number => counts.get(key) ?? 0;
  for (const key of literals.flat().flatMap(keysOf)) counts.set(key, countOf(key) + 1);
  const sharedBy = (each: Literals): number => Math.max(...keysOf(each).map(countOf));
  const sections = new Map<string, Pick<Literals, "claim" | "section">>();
  const places = new Map<string, number[]>();
  const unindexed: number[] = [];
  for (const [place, choices] of literals.entries()) {
    const [best] = choices.toSorted((a, b) => sharedBy(a) - sharedBy(b));
    if (!best) {
      unindexed.push(place);
      continue;
    }
    sections.set(`${best.claim} ${best.section}`, best);
    for (const key of keysOf(best)) places.set(key, [...(places.get(key) ?? []), place]);
  }
  return (values) => {
    const found = [...sections.values()].flatMap(({ claim, section }) => {
      const texts = listOf(values[claim]).map((text) => cut(text, section));
      return keysOf({ claim, section, texts }).flatMap((key) => places.get(key) ?? []);
    });
    return [...found, ...unindexed].sort((a, b) => a - b);
  };
}

const keysOf = ({ claim, section, texts }: Literals): readonly string[] =>
  texts.map((text) => `${claim} ${section} ${text}`);

function cut(text: string, [kind, at]: Section): string {
  if (kind === "whole") return text;
  return kind === "start" ? text.slice(0, at) : (text.split(/[^A-Za-z0-9._*-]/)[at] ?? "");
}

/** The literal texts of a condition. A glob has as many parts as every text that it matches. */
function literalsOf(claim: number, accepted: readonly string[]): readonly Literals[] {
  const lengths = accepted.map((text) => `${text}*`.indexOf("*"));
  const parts = Math.min(...accepted.map((text) => text.split(/[^A-Za-z0-9._*-]/).length));
  const sections: readonly Section[] = [
    ["whole"],
    ...Array.from({ length: parts }, (_, part) => ["part", part] as const),
    ["start", Math.min(...lengths)],
  ];
  return sections.flatMap((section) => {
    const texts = [...new Set(accepted.map((text) => cut(text, section)))];
    return texts.some((text) => text.includes("*")) ? [] : [{ claim, section, texts }];
  });
}

type Compiled = Pick<SubjectEntry, "name" | "once" | "maximumAgeSeconds"> & {
  readonly tests: readonly Test[];
  readonly accountOf: (values: readonly Value[]) => ServiceAccount;
  readonly digest: Bytes;
};

interface Test {
  readonly claim: string;
  readonly fits: (values: readonly Value[]) => boolean;
}

function compile(
  entry: SubjectEntry,
  issuer: string,
  indexOf: (path: ClaimPath) => number,
): Compiled {
  const { conditions, ...names } = entry;
  const namespace = templateOf(entry.namespace, indexOf);
  const account = templateOf(entry.account, indexOf);
  const tests = [
    ...conditions.map(({ path, accepted }) => testOf(path, indexOf(path), accepted)),
    ...[...namespace.paths, ...account.paths].map((path) => testOf(path, indexOf(path))),
  ];
  const given = [issuer, conditions, entry.namespace, entry.account];
  return {
    ...names,
    tests,
    accountOf: (values) => {
      const found = ServiceAccount.parse(namespace.fill(values), account.fill(values));
      if (found) return found;
      throw rejectCredential("subject", `the claims make no name of an account for ${entry.name}`);
    },
    digest: IdentityProof.issuerDigest(JSON.stringify(given)),
  };
}

/** @param accepted Absent if any value of the claim fits. */
function testOf(path: ClaimPath, index: number, accepted?: readonly string[]): Test {
  const accepts = accepted?.map(acceptsOne) ?? [() => true];
  const isAccepted = (text: string): boolean => accepts.some((each) => each(text));
  return { claim: claimPathText(path), fits: (values) => listOf(values[index]).some(isAccepted) };
}

/** Compares beginning and end first: a regular expression takes five times as long to reject a text that differs there. */
function acceptsOne(accepted: string): (text: string) => boolean {
  if (!accepted.includes("*")) return (text) => text === accepted;
  const pieces = accepted.split("*");
  const [first = "", last = ""] = [pieces[0], pieces.at(-1)];
  // Each part of the glob has at most one star, so that a match takes linear time.
  const form = new RegExp(`^${pieces.map(escaped).join(starred)}$`);
  return (text) => text.startsWith(first) && text.endsWith(last) && form.test(text);
}

const escaped = (text: string): string => text.replace(/[^A-Za-z0-9]/g, "\\$&");

/** A text with claim paths in braces, which are replaced by the claims. */
interface Template {
  readonly paths: readonly ClaimPath[];
  readonly fill: (values: readonly Value[]) => string;
}

/** Literal texts and, between two of them, a path that stood in braces. */
export const templatePieces = (text: string): readonly string[] => text.split(/\{([^{}]*)\}/);

function templateOf(text: string, indexOf: (path: ClaimPath) => number): Template {
  const paths: ClaimPath[] = [];
  const writers = templatePieces(text).map((piece, i) => {
    if (i % 2 === 0) return () => piece;
    const path = parseClaimPath(piece) ?? [];
    const index = indexOf(path);
    paths.push(path);
    return (values: readonly Value[]) => labelOf(path, values[index]);
  });
  return { paths, fill: (values) => writers.map((write) => write(values)).join("") };
}

/**
 * The claim as a DNS label. Any other claim is refused, not rewritten, because two claims could become one label.
 * @throws CaError `credential-rejected` (`subject`)
 */
function labelOf(path: ClaimPath, value: Value): string {
  if (typeof value === "string" && DnsName.label.test(value)) return value;
  throw rejectCredential("subject", `the claim ${claimPathText(path)} is no DNS label`);
}

/** The JSON value at a path; `undefined` if it is missing. */
function memberAt(claims: Members, path: ClaimPath): unknown {
  let value: unknown = claims;
  for (const name of path) {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
    if (!Object.hasOwn(value, name)) return undefined;
    value = (value as Members)[name];
  }
  return value;
}

const maximumListed = 64;

function textsOf(member: unknown): Value {
  if (!Array.isArray(member)) return textOf(member);
  const texts = member.length > maximumListed ? [] : member.flatMap((each) => textOf(each) ?? []);
  return texts.length > 0 ? texts : undefined;
}

/** Whole numbers beyond 2^53 give `undefined`, because two of them could become one here. */
function textOf(value: unknown): string | undefined {
  if (typeof value === "boolean" || Number.isSafeInteger(value)) return String(value);
  return RegisteredClaims.isText(value) ? value : undefined;
}

/**
 * Requires a token for this CA alone: one for two receivers could be sent here by the other receiver.
 * @throws CaError `credential-rejected` (`audience`)
 */
function requireOwnAudience(claims: Members, accepted: readonly string[]): void {
  const [audience = "", ...others] = RegisteredClaims.audiences(claims);
  if (others.length === 0 && accepted.includes(audience)) return;
  throw rejectCredential("audience", "the token is not meant for this CA alone");
}

/** @throws CaError `credential-rejected` (`form`, `time`) */
function requireAge({ name, maximumAgeSeconds }: Compiled, { iat }: Members, now: Date): void {
  if (maximumAgeSeconds === undefined) return;
  if (typeof iat !== "number") throw rejectCredential("form", `${name} demands an iat`);
  if (now.getTime() / 1000 <= iat + maximumAgeSeconds) return;
  throw rejectCredential("time", `the token is older than ${name} allows`);
}

const maximumRecordedOctets = 256;

/**
 * Records each claim completely, because a denial would miss a text that is cut, or an element that a list lacks. A claim that is
 * missing, null or an empty list is not recorded.
 *
 * @throws CaError `credential-rejected` (`form`) for an object, a fraction, and a claim of more than 256 octets.
 */
function recordOf(recorded: readonly ClaimPath[], claims: Members): RecordedClaims {
  const entries = recorded.flatMap((path): [string, string | readonly string[]][] => {
    const member = memberAt(claims, path) ?? [];
    const name = claimPathText(path);
    const texts = [member].flat().map(textOf);
    if (!texts.every((text) => text !== undefined)) {
      throw rejectCredential("form", `the claim ${name} cannot be recorded`);
    }
    if (new TextEncoder().encode(texts.join()).length > maximumRecordedOctets) {
      throw rejectCredential(
        "form",
        `the claim ${name} has more than ${maximumRecordedOctets} octets`,
      );
    }
    if (texts.length === 0) return [];
    return [[name, Array.isArray(member) ? texts : (texts[0] ?? "")]];
  });
  return Object.fromEntries(entries);
}

/** Says which entry comes nearest to fitting, and what the token lacks for it. It quotes no value of the token. */
function whyNone(entries: readonly Compiled[], values: readonly Value[]): string {
  const judged = entries.map(({ name, tests }) => {
    const missed = tests.filter((test) => !test.fits(values)).map(({ claim }) => claim);
    return { name, missed };
  });
  const [nearest] = judged.toSorted((a, b) => a.missed.length - b.missed.length);
  const what = nearest?.missed.slice(0, 4).join(", ");
  return `no entry of subjects fits: the nearest, ${nearest?.name}, misses ${what}`;
}
