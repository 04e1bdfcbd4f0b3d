import { claimPathText, templatePieces } from "../authn/subject-claims.ts";
import type { SubjectEntry } from "../authn/token-subject.ts";
import type { IssuerTable } from "../config/issuer-table.ts";
import { commonName } from "../foundation/globs.ts";
import { Finding } from "./finding.ts";

/** The values that an entry's conditions accept, by the last name of each claim's path. */
type Accepted = ReadonlyMap<string, readonly string[]>;

const github = /^https:\/\/token\.actions\.[\w.-]+(?:\/|$)|\/_services\/token$/;

/** Claims that no later owner of a name can get, and forms of `sub` that are as safe: a number, a SPIFFE ID, one with ids. */
const immutable = [
  ...[
    "repository_id",
    "repository_owner_id",
    "project_id",
    "namespace_id",
    "aws_account",
    "org_id",
  ],
  ...["oid", "organization_id", "pipeline_id", "instance_id"],
];
const immutableSubject = /^\d+$|^spiffe:|@\d+/;

/** Claims that a job, or whoever starts it, can choose. */
const chosenByCaller = ["request_tags", "head_ref", "workflow", "actor"];

const onBehalfOfStrangers = /^pull_request|^workflow_run$/;

/** Known mistakes of users of other systems. Each text follows the entry's name in a sentence. */
const mistakes: readonly (readonly [
  isMade: (accepted: Accepted, paths: readonly string[], issuer: string) => boolean,
  what: string,
])[] = [
  [
    (accepted) =>
      !immutable.some((name) => accepted.get(name)?.every((text) => !text.includes("*"))) &&
      accepted.get("sub")?.every((text) => immutableSubject.test(text)) !== true,
    "pins no id that nobody else can have: a freed name is another owner's",
  ],
  [
    (accepted) => [...accepted.values()].flat().some((text) => /@\*/.test(text)),
    "has a star in the place of an id",
  ],
  [
    (accepted) =>
      [...accepted].some(([name, texts]) =>
        texts.some(
          (text) =>
            text === "*" ||
            (/^(?:sub|repository|project_path)$/.test(name) && /^(?:repo:)?[^/:]*\*/.test(text)),
        ),
      ),
    "has a star that fits every owner",
  ],
  [
    (accepted) => {
      const forms = (accepted.get("sub") ?? []).filter((text) => text.startsWith("repo:"));
      return forms.length > 0 && new Set(forms.map((text) => text.includes("@"))).size === 1;
    },
    "knows one of GitHub's two forms of sub alone: ask for claims instead",
  ],
  [
    (accepted) =>
      accepted.get("event_name")?.some((text) => onBehalfOfStrangers.test(text)) === true,
    "fits jobs that run for strangers",
  ],
  [
    (accepted, _, issuer) =>
      (github.test(issuer) || accepted.has("project_id")) &&
      !["environment", "ref", "ref_protected"].some((name) => accepted.has(name)) &&
      accepted.get("sub")?.every((text) => /:environment:|:ref:/.test(text)) !== true,
    "asks for neither an environment nor a ref: any branch has the identity",
  ],
  [
    (accepted) => accepted.has("project_id") && !accepted.has("job_project_id"),
    "fits the pipelines of forks: ask for job_project_id as well",
  ],
  [
    (accepted) =>
      accepted.has("project_id") &&
      !accepted.has("ref_type") &&
      accepted.get("ref")?.some((text) => !text.startsWith("refs/")) === true,
    "fits a tag that is named like the branch: ask for ref_type as well",
  ],
  [
    (_, paths) => chosenByCaller.some((name) => paths.includes(name)),
    "rests on a claim that the caller chooses",
  ],
];

/** Findings about entries of `subjects` that admit more callers than their author may expect. */
export function subjectFindings(issuers: readonly IssuerTable[]): readonly Finding[] {
  return issuers.flatMap(({ issuer, subjects = [] }) =>
    subjects.flatMap((entry, i) => [
      ...mistakesOf(entry, issuer),
      ...subjects
        .slice(0, i)
        .filter((other) => mayMeet(entry, other))
        .map((other) => loose(entry, issuer, `may give an account of the entry ${other.name}`)),
    ]),
  );
}

/** Whether two entries with different templates may map to the same account. */
function mayMeet(one: SubjectEntry, other: SubjectEntry): boolean {
  if (one.namespace === other.namespace && one.account === other.account) return false;
  const others = formsOf(other);
  return formsOf(one).some((form) => others.some((each) => haveCommonName(form, each)));
}

/** Whether two globs may match one name, label by label: a claim in braces is one label, and a star matches no dot. */
function haveCommonName(one: string, other: string): boolean {
  const [labels, others] = [one.split("."), other.split(".")];
  return (
    labels.length === others.length &&
    labels.every((label, i) => commonName(label, others[i] ?? "") !== undefined)
  );
}

const maximumForms = 64;

/** The accounts to which an entry may map, as globs `<namespace>.<account>`. */
function formsOf({ namespace, account, conditions }: SubjectEntry): readonly string[] {
  return templatePieces(`${namespace}.${account}`).reduce<readonly string[]>(
    (forms, piece, i) => {
      const texts = i % 2 === 0 ? [piece] : labelsOf(piece, conditions);
      const few = forms.length * texts.length > maximumForms ? ["*"] : texts;
      return forms.flatMap((form) => few.map((text) => form + text));
    },
    [""],
  );
}

/** The values that a claim may have in a label: those that the entry's conditions accept, or any. */
function labelsOf(path: string, conditions: SubjectEntry["conditions"]): readonly string[] {
  const asked = conditions.find((each) => claimPathText(each.path) === path);
  return asked?.accepted.filter((text) => /^[a-z0-9*-]+$/.test(text)) ?? ["*"];
}

function mistakesOf(entry: SubjectEntry, issuer: string): readonly Finding[] {
  const { conditions } = entry;
  const accepted = new Map(conditions.map(({ path, accepted }) => [path.at(-1) ?? "", accepted]));
  const paths = conditions.flatMap(({ path }) => path);
  return mistakes.flatMap(([isMade, what]) =>
    isMade(accepted, paths, issuer) ? [loose(entry, issuer, what)] : [],
  );
}

const loose = ({ name }: SubjectEntry, issuer: string, what: string): Finding =>
  Finding.of(
    "subject-loose",
    `The entry ${name} of ${issuer} ${what}.`,
    "See `rampart docs foreign-tokens`, and narrow `claims` of the entry",
  );
