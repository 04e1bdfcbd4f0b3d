import * as z from "zod/mini";
import { claimPathText, parseClaimPath, templatePieces } from "../../authn/subject-claims.ts";
import type {
  ClaimCondition,
  ClaimPath,
  SubjectEntry,
  SubjectTable,
} from "../../authn/token-subject.ts";
import { DnsName } from "../../foundation/addresses.ts";
import { commonName, nameAllowList } from "../../foundation/globs.ts";
import { Duration, parsedText, refuse } from "../../foundation/text.ts";
import { ServiceAccount } from "../../pki/spiffe-id.ts";
import { matching, tableName, uniqueNames } from "../form.ts";

/** A text with at most one star in each part. A character that a star does not match separates parts. */
const claimText = /^(?!.*\*[A-Za-z0-9._-]*\*)[^\p{Cc}]{1,256}$/u;
const maximumConditions = 16;
const deepestClaim = 8;

/** The conditions of a table of claims, in which a table stands for an object; `undefined` for any other value. */
function conditionsIn(table: unknown, path: ClaimPath = []): ClaimCondition[] | undefined {
  if (typeof table !== "object" || table === null || path.length >= deepestClaim) return undefined;
  if (Array.isArray(table) || table instanceof Date) return undefined;
  const found = Object.entries(table).map(([name, value]) => {
    if (!parseClaimPath(claimPathText([name]))) return undefined;
    const accepted = (Array.isArray(value) ? value : [value]).map(acceptedText);
    if (accepted.length > 64) return undefined;
    if (accepted.every((text) => text !== undefined) && accepted.length > 0) {
      return [{ path: [...path, name], accepted }];
    }
    return conditionsIn(value, [...path, name]);
  });
  return found.every((each) => each !== undefined) ? found.flat() : undefined;
}

/** The text that a claim must equal: that of JSON for whole numbers and booleans; `undefined` for other values. */
function acceptedText(value: unknown): string | undefined {
  if (typeof value === "boolean" || Number.isSafeInteger(value)) return String(value);
  return typeof value === "string" && claimText.test(value) ? value : undefined;
}

const claims = z.transform((value: unknown, context): readonly ClaimCondition[] => {
  const found = conditionsIn(value) ?? [];
  if (found.length > 0 && found.length <= maximumConditions) return found;
  const values =
    "a text with one * at most in each part, a whole number, true, false, or a list of these";
  return refuse(context, `must be a table of 1 to ${maximumConditions} claims, each ${values}`);
});

const pathsIn = (template: string): readonly (ClaimPath | undefined)[] =>
  templatePieces(template).flatMap((piece, i) => (i % 2 === 1 ? [parseClaimPath(piece)] : []));

/** Whether a text is a template. Two placeholders in a label are refused: `a-b` with `c` would give the name of `a` with `b-c`. */
function isTemplate(text: string, isName: (filled: string) => boolean): boolean {
  const pieces = templatePieces(text);
  const between = pieces.slice(1, -1);
  const hasOneInEachLabel = between.every((piece, i) => i % 2 === 0 || piece.includes("."));
  const filled = pieces.map((piece, i) => (i % 2 === 1 ? "a" : piece));
  return (
    text.length <= 512 &&
    hasOneInEachLabel &&
    !pathsIn(text).includes(undefined) &&
    isName(filled.join(""))
  );
}

/** A fault after which nothing else of the table is checked. */
const stopping = (error: string) => ({ error, abort: true });

function template(noun: string, isName: (filled: string) => boolean) {
  const fault = `must be ${noun}, in which one claim in braces may stand in each label`;
  return z.string().check(z.refine((text) => isTemplate(text, isName), stopping(fault)));
}

const entrySchema = z.strictObject({
  name: matching(tableName, stopping("must be lower-case letters, digits, dots and -")),
  claims,
  namespace: template("a namespace", (text) => DnsName.label.test(text)),
  account: template("a service account", (text) => ServiceAccount.parse("a", text) !== undefined),
  once: z._default(z.boolean(), false),
  maximum_age: z.optional(
    Duration.seconds.check(z.refine((seconds) => seconds > 0, stopping("must be longer than 0s"))),
  ),
});

const entry = z.pipe(
  entrySchema,
  z.transform(({ claims: conditions, maximum_age, ...rest }): SubjectEntry => {
    return { ...rest, conditions, maximumAgeSeconds: maximum_age };
  }),
);

const secretName = /token|secret|passw|credential|nonce|hash|signature|(?:^|_)key$/i;

const recordedClaim = parsedText((text) => {
  const path = parseClaimPath(text);
  return path && !secretName.test(text) ? path : undefined;
}, "must be the path of a claim, such as repository_id, and of none that may be a secret");

const maximumRecorded = 16;

/** The configuration keys of an issuer whose tokens are not those of ServiceAccounts. */
export const subjectKeys = {
  subjects: z.optional(z.array(entry).check(z.minLength(1), z.maxLength(200), uniqueNames)),
  recorded_claims: z.optional(z.array(recordedClaim).check(z.maxLength(maximumRecorded))),
};

type Subjects = Partial<z.output<z.ZodMiniObject<typeof subjectKeys>>>;

/** The keys of an issuer that are checked together with its subjects. */
type Table = Subjects & {
  readonly issuer: string;
  readonly audiences: readonly string[];
  readonly namespaces: readonly string[];
};

const templatePaths = ({ namespace, account }: SubjectEntry): readonly ClaimPath[] =>
  [...pathsIn(namespace), ...pathsIn(account)].filter((path) => path !== undefined);

/** The claims to record: those that the operator has chosen, or else those that the entries name. */
function recordedIn({ subjects = [], recorded_claims }: Subjects): readonly ClaimPath[] {
  if (recorded_claims) return recorded_claims;
  const named = subjects.flatMap((each) => [
    ...each.conditions.map(({ path }) => path),
    ...templatePaths(each),
  ]);
  const paths = new Map(named.map((path) => [claimPathText(path), path]));
  return [...paths].filter(([text]) => !secretName.test(text)).map(([, path]) => path);
}

/** The names of the claims that are recorded of an issuer's tokens in the audit line and the log. */
export const recordedNames = (table: Subjects): readonly string[] =>
  recordedIn(table).map(claimPathText);

/** The entries of an issuer with the claims that are recorded; `undefined` for one of ServiceAccounts. */
export function subjectTableOf(table: Subjects & Pick<Table, "issuer">): SubjectTable | undefined {
  const { issuer, subjects: entries } = table;
  return entries && { issuer, entries, recordedClaims: recordedIn(table) };
}

/** The path of a field in a table, and what is wrong there. */
export type Fault = readonly [place: readonly (string | number)[], fault: string];

/** Audiences that platforms put into tokens by themselves, or that are a cloud's own. */
const sharedAudience =
  /^(?:istio-ca|sts\.amazonaws\.com|sigstore|api:\/\/AzureADTokenExchange|(?:https:)?\/\/iam\.googleapis\.com\/.*|https:\/\/(?:github\.com|gitlab\.com|buildkite\.com|management\.(?:core\.windows\.net|azure\.com)|graph\.microsoft\.com)(?:\/.*)?)$/;

/** The contradictions within a table with subjects. Other issuers are not considered. */
export function subjectFaults(table: Table): readonly Fault[] {
  const { issuer, audiences, namespaces, subjects = [] } = table;
  const isShared = (audience: string): boolean =>
    sharedAudience.test(audience) || audience === issuer || issuer.endsWith(`/${audience}`);
  const isOwn = nameAllowList(namespaces);
  const faults: Fault[] = [];
  if (audiences.some(isShared)) {
    const alone = "must be given with subjects, and be this CA's alone";
    faults.push([["audiences"], `${alone}: no default of a platform or a cloud`]);
  }
  if (recordedIn(table).length > maximumRecorded) {
    const fault = `is required where subjects name more than ${maximumRecorded} claims`;
    faults.push([["recorded_claims"], fault]);
  }
  for (const [i, each] of subjects.entries()) {
    const isVouched = each.namespace.includes("{") ? namespaces.length > 0 : isOwn(each.namespace);
    if (!isVouched) faults.push([["subjects", i, "namespace"], "is not among namespaces"]);
    const before = subjects.slice(0, i).find((other) => covers(other, each));
    if (before) {
      const fault = `never counts: ${before.name} before it fits all of its tokens`;
      faults.push([["subjects", i, "claims"], fault]);
    }
  }
  return faults;
}

/** Whether `one` matches every token that `other` matches. A claim that only `one` uses may be absent from such a token. */
function covers(one: SubjectEntry, other: SubjectEntry): boolean {
  const demanded = new Map(
    other.conditions.map(({ path, accepted }) => [claimPathText(path), accepted] as const),
  );
  const named = new Set([...demanded.keys(), ...templatePaths(other).map(claimPathText)]);
  return (
    templatePaths(one).every((path) => named.has(claimPathText(path))) &&
    one.conditions.every(({ path, accepted }) =>
      demanded.get(claimPathText(path))?.every((text) => accepted.includes(text)),
    )
  );
}

/**
 * Finds entries whose claims may choose an account that another issuer may vouch for as well. To give such an account
 * to a token, an operator has to write its name without claims.
 */
export function reachingFaults(tables: readonly Table[]): readonly Fault[] {
  return tables.flatMap((table, i) => {
    const others = tables.filter((other) => other !== table);
    const ownerOf = (namespace: string): Table | undefined =>
      others.find((other) => other.namespaces.some((glob) => overlaps(table, namespace, glob)));
    const owners = new Map<string, Table | undefined>();
    return (table.subjects ?? []).flatMap(({ namespace, account }, j): Fault[] => {
      if (!`${namespace}${account}`.includes("{")) return [];
      if (!owners.has(namespace)) owners.set(namespace, ownerOf(namespace));
      const owner = owners.get(namespace);
      if (!owner) return [];
      const key = namespace.includes("{") ? "namespace" : "account";
      const fault = `may be an account of ${owner.issuer}: write namespace and account without claims, or narrow namespaces of one of the two`;
      return [[[i, "subjects", j, key], fault]];
    });
  });
}

/** Whether another issuer's glob may match both the namespace of an entry and a namespace of its issuer. */
function overlaps({ namespaces }: Table, namespace: string, glob: string): boolean {
  const form = namespace.replace(/\{[^{}]*\}/g, "*");
  return (
    commonName(form, glob) !== undefined &&
    namespaces.some((own) => commonName(own, glob) !== undefined)
  );
}
