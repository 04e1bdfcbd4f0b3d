import { DnsName } from "../foundation/addresses.ts";
import { rejectCredential } from "../foundation/errors.ts";
import type { JsonObject } from "../pki/jose/json-web-signature.ts";
import { RegisteredClaims } from "../pki/jose/registered-claims.ts";
import { ServiceAccount } from "../pki/spiffe-id.ts";

/** The names that lead to a claim: one for a claim itself, more for a member of an object in it. */
export type ClaimPath = readonly string[];

/**
 * Reads a path as TOML writes a dotted key: `environment`, `a.b`, or `"https://sts.amazonaws.com/".aws_account`, where
 * quotation marks stand around a name that has dots itself.
 */
export function parseClaimPath(text: string): ClaimPath | undefined {
  const names = text.match(/"[^"{}]+"|[^".{}]+/g) ?? [];
  const isWhole = names.join(".") === text && names.length <= 8 && text.length <= 256;
  return isWhole && names.length > 0 ? names.map((name) => name.replaceAll('"', "")) : undefined;
}

/** A path as {@link parseClaimPath} reads it. */
export const claimPathText = (path: ClaimPath): string =>
  path.map((name) => (name.includes(".") ? `"${name}"` : name)).join(".");

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
  /** Whether a token is good for one certificate alone. */
  readonly once: boolean;
  /** How long after its `iat` a token is good, whatever its `exp` says. */
  readonly maximumAgeSeconds?: number | undefined;
}

/** The entries of an issuer in their order, and the claims that audit line and log get. */
export interface SubjectTable {
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
  readonly claims: Readonly<Record<string, string>>;
}

/** A recorded claim; `undefined` of a token that has none of the name. */
export const recordedClaim = (
  { claims }: Pick<TokenSubject, "claims">,
  name: string,
): string | undefined => (Object.hasOwn(claims, name) ? claims[name] : undefined);

/** What an entry gives the bearer of a token. */
export interface MappedSubject {
  readonly account: ServiceAccount;
  readonly tokenSubject: TokenSubject;
  /** Until when the token could be shown again. Present where its entry demands that it is used once. */
  readonly usedOnceUntil?: Date | undefined;
}

/** An issuer's table of claims, ready for tokens. */
export interface SubjectMapping {
  /** @throws CaError `credential-rejected` (`form`, `time`, `audience`, `subject`). */
  readonly map: (claims: JsonObject, audiences: readonly string[], now: Date) => MappedSubject;
  /** Whether an entry may give this account to any token. */
  readonly mayGive: (account: ServiceAccount) => boolean;
}

/** A claim as text; several of a list; `undefined` if it is missing, or neither text, boolean nor whole number. */
type Value = string | readonly string[] | undefined;

/** The characters that a star matches. A structured subject is separated into parts by any other character. */
const starred = "[A-Za-z0-9._-]+";

/**
 * Compiles the entries of an issuer. Each claim that any of them names is read once for a token, whatever the number of
 * entries.
 */
export function createSubjectMapping({ entries, recordedClaims }: SubjectTable): SubjectMapping {
  const paths = new Map<string, ClaimPath>();
  const indexOf = (path: ClaimPath): number => {
    const key = claimPathText(path);
    paths.set(key, path);
    return [...paths.keys()].indexOf(key);
  };
  const compiled = rarestFirst(entries).map((entry) => compile(entry, indexOf));
  const recorded = recordedClaims.map((path) => [claimPathText(path), indexOf(path)] as const);
  const allPaths = [...paths.values()];
  return {
    map: (claims, audiences, now) => {
      RegisteredClaims.requireTime(claims, now);
      requireOwnAudience(claims, audiences);
      const { sub } = claims;
      if (!RegisteredClaims.isText(sub))
        throw rejectCredential("form", "sub is missing, or no text");
      const values = allPaths.map((path) => valueAt(claims, path));
      const entry = compiled.find((each) => each.fits(values));
      if (!entry) throw rejectCredential("subject", whyNone(compiled, values));
      requireAge(entry, claims, now);
      return {
        account: entry.accountOf(values),
        tokenSubject: { sub, entry: entry.name, claims: recordOf(recorded, values) },
        usedOnceUntil: entry.once ? new Date(Number(claims["exp"]) * 1000) : undefined,
      };
    },
    mayGive: (account) => compiled.some((entry) => entry.mayGive(account)),
  };
}

/** The conditions of each entry in such an order that those come last which many entries share, such as the owner's. */
function rarestFirst(entries: readonly SubjectEntry[]): readonly SubjectEntry[] {
  const counts = new Map<string, number>();
  const keyOf = (condition: ClaimCondition): string => JSON.stringify(condition);
  const all = entries.flatMap(({ conditions }) => conditions.map(keyOf));
  for (const key of all) counts.set(key, (counts.get(key) ?? 0) + 1);
  const countOf = (condition: ClaimCondition): number => counts.get(keyOf(condition)) ?? 0;
  return entries.map((entry) => ({
    ...entry,
    conditions: entry.conditions.toSorted((a, b) => countOf(a) - countOf(b)),
  }));
}

type Compiled = Pick<SubjectEntry, "name" | "once" | "maximumAgeSeconds"> & {
  readonly fits: (values: readonly Value[]) => boolean;
  readonly tests: readonly Test[];
  readonly accountOf: (values: readonly Value[]) => ServiceAccount;
  readonly mayGive: (account: ServiceAccount) => boolean;
};

interface Test {
  readonly claim: string;
  readonly fits: (values: readonly Value[]) => boolean;
}

function compile(entry: SubjectEntry, indexOf: (path: ClaimPath) => number): Compiled {
  const namespace = templateOf(entry.namespace, indexOf);
  const account = templateOf(entry.account, indexOf);
  const tests = [
    ...entry.conditions.map(({ path, accepted }) => testOf(path, indexOf(path), accepted)),
    ...[...namespace.paths, ...account.paths].map((path) => testOf(path, indexOf(path))),
  ];
  return {
    ...entry,
    tests,
    fits: (values) => {
      for (const { fits } of tests) if (!fits(values)) return false;
      return true;
    },
    accountOf: (values) => {
      const found = ServiceAccount.parse(namespace.fill(values), account.fill(values));
      if (found) return found;
      throw rejectCredential("subject", `the claims make no name of an account for ${entry.name}`);
    },
    mayGive: (given) => namespace.mayBe(given.namespace) && account.mayBe(given.name),
  };
}

/** @param accepted Absent where any value will do that is there. */
function testOf(path: ClaimPath, index: number, accepted?: readonly string[]): Test {
  const isAccepted = accepted ? acceptsAny(accepted) : () => true;
  return {
    claim: claimPathText(path),
    fits: (values) => {
      const value = values[index];
      if (value === undefined) return false;
      return typeof value === "string" ? isAccepted(value) : value.some(isAccepted);
    },
  };
}

function acceptsAny(accepted: readonly string[]): (text: string) => boolean {
  const [only, ...others] = accepted.map(acceptsOne);
  return only && others.length === 0
    ? only
    : (text) => only?.(text) === true || others.some((each) => each(text));
}

/** Most texts of a long table do not even begin like a glob, and a regular expression takes five times as long to tell. */
function acceptsOne(accepted: string): (text: string) => boolean {
  if (!accepted.includes("*")) return (text) => text === accepted;
  const [first = ""] = accepted.split("*", 1);
  const form = globForm(accepted);
  return (text) => text.startsWith(first) && form.test(text);
}

/** Each part of the glob has at most one star, so that a match takes linear time. */
function globForm(glob: string): RegExp {
  return new RegExp(`^${glob.split("*").map(escaped).join(starred)}$`);
}

const escaped = (text: string): string => text.replace(/[^A-Za-z0-9]/g, "\\$&");

/** A text with claim paths in braces, which are replaced by the claims. */
interface Template {
  readonly paths: readonly ClaimPath[];
  readonly fill: (values: readonly Value[]) => string;
  readonly mayBe: (name: string) => boolean;
}

/** Literal texts and, between two of them, a path that stood in braces. */
export const templatePieces = (text: string): readonly string[] => text.split(/\{([^{}]*)\}/);

function templateOf(text: string, indexOf: (path: ClaimPath) => number): Template {
  const pieces = templatePieces(text).map((piece, i) => {
    const path = i % 2 === 1 ? (parseClaimPath(piece) ?? []) : undefined;
    return path ? { path, index: indexOf(path) } : piece;
  });
  const forms = pieces.map((piece) => (typeof piece === "string" ? escaped(piece) : "[a-z0-9-]+"));
  const form = new RegExp(`^${forms.join("")}$`);
  return {
    paths: pieces.flatMap((piece) => (typeof piece === "string" ? [] : [piece.path])),
    fill: (values) =>
      pieces
        .map((piece) =>
          typeof piece === "string" ? piece : labelOf(piece.path, values[piece.index]),
        )
        .join(""),
    mayBe: (name) => form.test(name),
  };
}

/**
 * A claim that is no label is refused and not rewritten, because two claims could become one label. @throws CaError
 * `credential-rejected` (`subject`)
 */
function labelOf(path: ClaimPath, value: Value): string {
  if (typeof value === "string" && DnsName.label.test(value)) return value;
  throw rejectCredential("subject", `the claim ${claimPathText(path)} is no DNS label`);
}

function valueAt(claims: JsonObject, path: ClaimPath): Value {
  let value: unknown = claims;
  for (const name of path) {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
    if (!Object.hasOwn(value, name)) return undefined;
    value = (value as JsonObject)[name];
  }
  return Array.isArray(value) ? listOf(value) : textOf(value);
}

const maximumListed = 64;

const listOf = (values: readonly unknown[]): Value => {
  const texts = values.length > maximumListed ? [] : values.flatMap((each) => textOf(each) ?? []);
  return texts.length > 0 ? texts : undefined;
};

/** Beyond 2^53 two numbers of a token would be one here. */
function textOf(value: unknown): string | undefined {
  if (typeof value === "boolean" || Number.isSafeInteger(value)) return String(value);
  return RegisteredClaims.isText(value) ? value : undefined;
}

/** A token for two receivers is one that the other receiver can send here. @throws CaError */
function requireOwnAudience(claims: JsonObject, accepted: readonly string[]): void {
  const [audience = "", ...others] = RegisteredClaims.audiences(claims);
  if (others.length === 0 && accepted.includes(audience)) return;
  throw rejectCredential("audience", "the token is not meant for this CA alone");
}

/** @throws CaError `credential-rejected` (`form`, `time`) */
function requireAge({ name, maximumAgeSeconds }: Compiled, { iat }: JsonObject, now: Date): void {
  if (maximumAgeSeconds === undefined) return;
  if (typeof iat !== "number") throw rejectCredential("form", `${name} demands an iat`);
  if (now.getTime() / 1000 <= iat + maximumAgeSeconds) return;
  throw rejectCredential("time", `the token is older than ${name} allows`);
}

const maximumRecordedOctets = 256;

/** A claim that is cut, or left out, would escape a denial. @throws CaError `credential-rejected` (`form`) */
function recordOf(
  recorded: readonly (readonly [string, number])[],
  values: readonly Value[],
): Readonly<Record<string, string>> {
  const entries = recorded.flatMap(([name, index]): [string, string][] => {
    const value = values[index];
    if (value === undefined) return [];
    const text = typeof value === "string" ? value : JSON.stringify(value);
    if (new TextEncoder().encode(text).length > maximumRecordedOctets) {
      throw rejectCredential("form", `the claim ${name} has more than 256 octets`);
    }
    return [[name, text]];
  });
  return Object.fromEntries(entries);
}

/** Which entry is the nearest, and what it misses. No value of the token is in it. */
function whyNone(entries: readonly Compiled[], values: readonly Value[]): string {
  const judged = entries.map(({ name, tests }) => {
    const missed = tests.filter((test) => !test.fits(values)).map(({ claim }) => claim);
    return { name, missed };
  });
  const [nearest] = judged.toSorted((a, b) => a.missed.length - b.missed.length);
  const what = nearest?.missed.slice(0, 4).join(", ");
  return `no entry of subjects fits: the nearest, ${nearest?.name}, misses ${what}`;
}
