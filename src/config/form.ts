import * as z from "zod/mini";
import { DnsName } from "../foundation/addresses.ts";
import { inEnglish } from "../foundation/english.ts";
import { ConfigurationError } from "../foundation/errors.ts";
import { parsedText } from "../foundation/text.ts";
import { ServiceAccount, TrustDomain } from "../pki/spiffe-id.ts";

/** Keys and values, unchecked. */
type Values = Readonly<Record<string, unknown>>;

/** Parses configurations. */
export const ConfigurationForm = {
  /** Splits the values of a configuration by their keys. @returns Those for which `isOne` holds, then the others. */
  partition(values: Values, isOne: (key: string) => boolean): [Values, Values] {
    const entries = Object.entries(values);
    return [
      Object.fromEntries(entries.filter(([key]) => isOne(key))),
      Object.fromEntries(entries.filter(([key]) => !isOne(key))),
    ];
  },

  /**
   * Parses a configuration by its schema. For an unknown key it names a similar one.
   * @throws ConfigurationError with the first error at each place.
   */
  parse<Output>(form: z.ZodMiniType<Output>, values: Values): Output {
    const similar = new Map<string, string | undefined>();
    const error: typeof inEnglish.error = (issue) => {
      if (issue.code === "unrecognized_keys" && issue.inst instanceof z.ZodMiniObject) {
        const known = Object.keys(issue.inst.def.shape);
        for (const key of issue.keys) similar.set(key, similarTo(key, known));
      }
      return inEnglish.error?.(issue);
    };
    const parsed = form.safeParse(values, { error, reportInput: true });
    if (parsed.success) return parsed.data;
    const faults = new Map<string, string>();
    // Only the first fault at a place is reported: later ones may follow from it.
    const found = parsed.error.issues.flatMap((issue) => faultsIn(issue, similar));
    for (const [place, fault] of found) {
      if (!faults.has(place)) faults.set(place, `${place}: ${fault}`);
    }
    throw new ConfigurationError([...faults.values()]);
  },

  /**
   * Parses every part, even after a fault, so that an operator sees all faults at once.
   * @throws ConfigurationError with all of them; any other error at once.
   */
  together<Parts extends Readonly<Record<string, () => unknown>>>(
    parts: Parts,
  ): { readonly [Name in keyof Parts]: ReturnType<Parts[Name]> } {
    const faults: string[] = [];
    const read = Object.entries(parts).map(([name, parse]) => {
      try {
        return [name, parse()];
      } catch (error) {
        if (!(error instanceof ConfigurationError)) throw error;
        faults.push(...error.faults);
        return [name, undefined];
      }
    });
    if (faults.length > 0) throw new ConfigurationError(faults);
    return Object.fromEntries(read);
  },
};

/** The places of a fault, and what is wrong there. zod's messages for these forms never quote a value. */
function faultsIn(
  issue: z.core.$ZodIssue,
  similar: ReadonlyMap<string, string | undefined>,
): [place: string, fault: string][] {
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => {
      const meant = similar.get(key);
      const hint = meant === undefined ? "" : `; did you mean ${meant}?`;
      return [placeOf([...issue.path, key]), `is not a key of Rampart${hint}`];
    });
  }
  const missing = issue.code === "invalid_type" && issue.input === undefined;
  return [[placeOf(issue.path), missing ? "is required" : issue.message]];
}

/**
 * Finds the key that differs, ignoring case, in at most two adjacent letters (also if they are swapped), or by one
 * letter more or fewer.
 */
function similarTo(key: string, known: readonly string[]): string | undefined {
  const letters = key.toUpperCase();
  return known.find((each) => {
    const theirs = each.toUpperCase();
    if (Math.abs(theirs.length - letters.length) > 1) return false;
    return [...theirs].some(
      (_, i) => letters.startsWith(theirs.slice(0, i)) && letters.endsWith(theirs.slice(i + 2)),
    );
  });
}

function placeOf(path: readonly PropertyKey[]): string {
  return path
    .map((key) => (typeof key === "number" ? `[${key}]` : `.${String(key)}`))
    .join("")
    .slice(1);
}

/** Makes a schema of texts of a pattern. @param fault The fault of any other text. */
export const matching = (pattern: RegExp, fault: string | z.core.$ZodCheckRegexParams) =>
  z.string().check(z.regex(pattern, fault));

/** A check of a list of tables with names. */
export const uniqueNames = z.refine<readonly { readonly name: string }[]>(
  (list) => new Set(list.map(({ name }) => name)).size === list.length,
  "must not use a name twice",
);

/** What an operator calls a signer of `SIGNERS`, or an entry of `subjects`. */
export const tableName = /^[a-z0-9][a-z0-9.-]{0,62}$/;

/** A domain with two or more labels, other than that of Kubernetes' own signers, and a path. */
const signerNamePattern =
  /^(?!(?:[a-z0-9.-]*\.)?kubernetes\.io\/)(?=.{3,571}$)[a-z0-9-]+(?:\.[a-z0-9-]+)+\/[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?$/;

/** The forms of names in a configuration. */
export const NameForm = {
  /** The name of a host in lower case. */
  dns: z.string().check(z.refine(DnsName.is, "must be the name of a host, in lower case")),

  /** The name of a cluster, as Istio's `clusterid` has it. */
  cluster: matching(/^[A-Za-z0-9._/-]{1,253}$/, "must be a cluster's name"),

  /** The name of a SPIFFE trust domain. */
  trustDomain: parsedText(
    TrustDomain.parse,
    "must be a SPIFFE trust domain: lower-case letters, digits, dots, - and _",
  ),

  /** A ServiceAccount, as operators write it. */
  account: parsedText(ServiceAccount.parseName, "must be <namespace>/<service account>"),

  /** The name of a signer, as Kubernetes writes it. */
  signer: matching(signerNamePattern, "must be a signer name such as mesh.example.com/workload"),
};
