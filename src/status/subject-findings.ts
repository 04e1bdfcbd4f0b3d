import type { SubjectEntry } from "../authn/subject-claims.ts";
import type { IssuerTable } from "../config/issuer-table.ts";
import { type Finding, finding } from "./finding.ts";

/** The texts of an entry's conditions, by the last name of each path. */
type Accepted = ReadonlyMap<string, readonly string[]>;

const github = /^https:\/\/token\.actions\.[\w.-]+(?:\/|$)|\/_services\/token$/;

/** Claims that no other owner can have later, and a `sub` that is one: a number, a SPIFFE ID, or one with ids in it. */
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

/** Claims that a job, or who starts it, writes. */
const chosenByCaller = ["request_tags", "head_ref", "workflow", "actor"];

const onBehalfOfStrangers = /^pull_request|^workflow_run$/;

/** The mistakes that users of other systems have made in public. Each text completes a sentence that begins with the entry's name. */
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
    (_, paths) => chosenByCaller.some((name) => paths.includes(name)),
    "rests on a claim that the caller chooses",
  ],
];

/** The entries of `subjects` that give more than their author may expect. */
export function subjectFindings(issuers: readonly IssuerTable[]): readonly Finding[] {
  return issuers.flatMap(({ issuer, subjects = [] }) =>
    subjects.flatMap((entry) => mistakesOf(entry, issuer)),
  );
}

function mistakesOf({ name, conditions }: SubjectEntry, issuer: string): readonly Finding[] {
  const accepted = new Map(conditions.map(({ path, accepted }) => [path.at(-1) ?? "", accepted]));
  const paths = conditions.flatMap(({ path }) => path);
  return mistakes.flatMap(([isMade, what]) =>
    isMade(accepted, paths, issuer)
      ? [
          finding(
            "subject-loose",
            `The entry ${name} of ${issuer} ${what}.`,
            "See docs/how-to/foreign-tokens.md, and narrow `claims` of the entry",
          ),
        ]
      : [],
  );
}
