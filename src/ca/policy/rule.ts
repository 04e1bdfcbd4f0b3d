import * as z from "zod/mini";
import { DnsName } from "../../foundation/addresses.ts";
import { Duration, instant, jsonText } from "../../foundation/text.ts";

/** Makes a schema of lists that also accepts a single text. */
const oneOrMore = <Output extends string>(one: z.ZodMiniType<Output, string>) =>
  z.pipe(
    z.transform((value: unknown) => (typeof value === "string" ? [value] : value)),
    z.array(one).check(z.minLength(1), z.maxLength(64)),
  );

/** Makes a schema of globs, one of which must match. An attribute that a request lacks matches none. */
const patterns = (form: RegExp) =>
  oneOrMore(z.string().check(z.regex(form, "must be such a name, or a glob with *")));

const choices = <const Choice extends string>(all: readonly [Choice, ...Choice[]]) =>
  oneOrMore(z.enum(all));

/** The types of subject keys, as a rule's condition names them. */
export const keyTypeNames = [
  ...(["EC-P256", "EC-P384", "EC-P521", "RSA", "Ed25519"] as const),
  ...(["ML-DSA-44", "ML-DSA-65", "ML-DSA-87"] as const),
] as const;

/** The ways in which a caller can be authenticated, as a rule's condition names them. */
export const proofs = ["token", "certificate", "forwarded"] as const;

/** What this CA issues, as a rule's condition names it. */
export const products = ["workload", "serving", "intermediate", "token"] as const;

const namespace = patterns(/^[a-z0-9*-]{1,63}$/);
const account = patterns(/^[a-z0-9.*-]{1,253}$/);
const keyTypes = choices(keyTypeNames);
const life = Duration.seconds.check(z.refine((seconds) => seconds > 0, "must be longer than 0s"));

/** The condition of a rule. It uses only attributes that the CA itself has established. */
const condition = z.strictObject({
  cluster: z.optional(patterns(/^[A-Za-z0-9._/*-]{1,253}$/)),
  issuer: z.optional(patterns(/^[\x21-\x7e]{1,1024}$/)),
  /** The namespace of the issued identity; for a serving certificate, of whom it is for. */
  namespace: z.optional(namespace),
  account: z.optional(account),
  /** The account of the caller: a gateway, a node proxy, a signer, or the workload itself. */
  caller: z.optional(
    z.strictObject({ namespace: z.optional(namespace), account: z.optional(account) }),
  ),
  node: z.optional(patterns(/^[a-z0-9.*-]{1,253}$/)),
  proof: z.optional(choices(proofs)),
  /** The `CertSigner` of the request; a request without one matches no pattern. */
  signer: z.optional(patterns(/^[a-z0-9.*-]{1,63}$/)),
  product: z.optional(choices(products)),
  requested_over: z.optional(Duration.seconds),
  key_type: z.optional(keyTypes),
  /** Recorded claims, by their paths, of a token that is not of a ServiceAccount. */
  claims: z.optional(
    z
      .record(z.string(), patterns(/^[^\p{Cc}]{1,256}$/u))
      .check(z.refine((each) => Object.keys(each).length > 0, "must name a claim")),
  ),
});

/** A name of a host, in which `{namespace}` and `{account}` stand for a whole label. */
const dnsTemplate = z
  .string()
  .check(
    z.refine(
      (text) => DnsName.is(text.replace(/(?<![^.])\{(?:namespace|account)\}(?![^.])/g, "a")),
      "must be the name of a host; {namespace} and {account} may stand for whole labels",
    ),
  );

const effect = z.strictObject({
  /** Denies the request, for this reason, which the audit line gets. */
  deny: z.optional(z.string().check(z.minLength(1), z.maxLength(200))),
  maximum_life: z.optional(life),
  default_life: z.optional(life),
  key_types: z.optional(keyTypes),
  signer: z.optional(z.string().check(z.maxLength(63))),
  /** The audiences that a token may be for. */
  audiences: z.optional(patterns(/^[\x21-\x7e]{1,255}$/)),
  /** DNS names that a workload gets beside its SPIFFE ID. Names in the request are never used. */
  dns_names: z.optional(z.array(dnsTemplate).check(z.minLength(1), z.maxLength(8))),
});

const name = z
  .string()
  .check(z.regex(/^[a-z0-9][a-z0-9.-]{0,62}$/, "must be lower-case letters, digits, dots and -"));

const rule = z.strictObject({
  name,
  shadow: z._default(z.boolean(), false),
  /** For a rule that denies by node: the instant from which every process knows the rule. */
  since: z.optional(instant),
  when: z._default(condition, {}),
  then: z._default(effect, {}),
});

const plainText = z.string().check(z.minLength(1), z.maxLength(1024));

/** Parses questions. */
export const Question = {
  /** A request as a person describes it: by default of a workload, with its token. */
  schema: z.strictObject({
    cluster: z.optional(plainText),
    issuer: z.optional(plainText),
    namespace: plainText,
    account: plainText,
    caller: z.optional(z.strictObject({ namespace: plainText, account: plainText })),
    node: z.optional(plainText),
    proof: z._default(z.enum(proofs), "token"),
    signer: z.optional(plainText),
    product: z._default(z.enum(products), "workload"),
    audiences: z.optional(z.array(plainText).check(z.maxLength(8))),
    requested: z.prefault(Duration.seconds, "0s"),
    key_type: z._default(z.enum(keyTypeNames), "EC-P256"),
    claims: z.optional(z.record(z.string(), z.union([plainText, z.readonly(z.array(plainText))]))),
  }),
};

/** A parsed request of `rampart policy explain` or a test case: what the policy is asked about. */
export type Question = z.output<typeof Question.schema>;

/** A case of `rampart policy test`. Members that `expect` leaves out may have any value. */
const testCase = z.strictObject({
  asks: Question.schema,
  expect: z.strictObject({
    /** The name of the rule that decides; empty for none. */
    rule: z.optional(z.string()),
    denied: z.optional(z.boolean()),
    life: z.optional(Duration.seconds),
    signer: z.optional(z.string()),
  }),
});

const table = z.strictObject({
  shadow: z._default(z.boolean(), false),
  cases: z._default(z.array(testCase).check(z.maxLength(1000)), []),
  rules: z.array(rule).check(
    z.maxLength(200),
    z.refine(
      (list) => new Set(list.map((each) => each.name)).size === list.length,
      "must not use a name twice",
    ),
  ),
});

/** The schema of the table `POLICY`. It reports faults as zod issues, and throws nothing by itself. */
export const PolicyTable = {
  /** `POLICY`: a table, or the same as JSON in a text. */
  schema: z.pipe(jsonText, table),
};

/**
 * The table `POLICY`: its rules in order, its test cases, and whether all rules are in shadow. The first rule that fits
 * decides, unless it is in shadow.
 */
export type PolicyTable = z.output<typeof table>;

/** A parsed rule of the table `POLICY`. */
export type RuleTable = PolicyTable["rules"][number];
