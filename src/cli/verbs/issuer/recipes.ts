import { Option } from "commander";

/** What the operator has answered, by the names that Commander gives the options. */
export type Answers = Readonly<Record<string, string | undefined>>;

/** A question about the callers, which an option answers in advance. */
export interface Question {
  readonly key: string;
  readonly flags: string;
  readonly text: string;
  /** The form of an answer. None admits a star, which would be a glob. */
  readonly form: RegExp;
  /** Whether it must be answered, given the answers before it. */
  readonly isNeeded: (answers: Answers) => boolean;
}

/** How callers of a platform get an account: by claims that the platform's own pages call immutable. */
export interface Recipe {
  readonly questions: readonly Question[];
  /** The default issuer. */
  readonly issuerOf?: (answers: Answers) => string;
  /** The claims that a token must have. A member that is `undefined` is left out. */
  readonly claimsOf: (answers: Answers) => Readonly<Record<string, unknown>>;
  /** The longest age of a token; absent if the platform hands out old ones. */
  readonly maximumAge?: string;
  /** Whether each token may be used once only, if the CA can remember used tokens. */
  readonly once?: boolean;
  /** More claims to record in log and audit; they decide nothing. */
  readonly recorded?: readonly string[];
  /** A sentence on what the table cannot ensure. */
  readonly advice: string;
}

const always = (): boolean => true;
const never = (): boolean => false;

const asks = (flags: string, text: string, form: RegExp, isNeeded = always): Question => {
  return { key: new Option(flags).attributeName(), flags, text, form, isNeeded };
};

const number = /^[0-9]{1,32}$/;
const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const roleArn = /^arn:aws[a-z-]*:iam::([0-9]{12}):role\/[\w+=,.@/-]{1,512}$/;
const aws = "https://sts.amazonaws.com/";
const spiffeId = /^spiffe:\/\/[a-z0-9._-]{1,255}(?:\/[A-Za-z0-9._-]+)+$/;
const label = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
const visible = /^[\x21-\x7e]{1,1024}$/;

const environmentName = "its environment, which has reviewers (nothing for a protected ref)";
const environment = asks("--environment <name>", environmentName, /^[^*\p{Cc}]{1,255}$/u, never);
const ref = (form: RegExp): Question => {
  const text = "its protected ref, such as refs/heads/main at GitHub, or the branch main at GitLab";
  const isNeeded = ({ environment: given }: Answers): boolean => given === undefined;
  return { ...asks("--ref <ref>", text, form), isNeeded };
};
const issuer = asks("--issuer <url>", "the issuer of its tokens", /^https:\/\/[\x21-\x7e]+$/);
const otherIssuer = { ...issuer, isNeeded: never };

/** The recipes by the platform of the caller, as `rampart issuer enrol` names it. */
export const recipes: Readonly<Record<string, Recipe>> = {
  github: {
    questions: [
      asks("--owner-id <number>", "its owner's id (`gh api repos/O/R --jq .owner.id`)", number),
      asks("--repository-id <number>", "the repository's id (`gh api repos/O/R --jq .id`)", number),
      ...[environment, ref(/^refs\/(?:heads|tags)\/[^*\s\p{Cc}]{1,240}$/u), otherIssuer],
    ],
    issuerOf: () => "https://token.actions.githubusercontent.com",
    claimsOf: ({ ownerId, repositoryId, environment, ref }) => ({
      ...{ repository_owner_id: ownerId, repository_id: repositoryId, environment, ref },
      ref_protected: ref && true,
      // Without pull_request_target and workflow_run, which run for strangers with the ref of the base branch.
      event_name: ["push", "workflow_dispatch"],
    }),
    maximumAge: "10m",
    recorded: ["repository", "job_workflow_ref", "run_id"],
    advice: "an environment protects where it has reviewers or names branches: look at its rules",
  },
  gitlab: {
    questions: [
      asks("--namespace-id <number>", "the id of its group", number),
      asks("--project-id <number>", "the id of the project", number),
      ...[environment, ref(/^(?!refs\/)[^*\s\p{Cc}]{1,255}$/u), otherIssuer],
    ],
    issuerOf: () => "https://gitlab.com",
    claimsOf: ({ namespaceId, projectId, environment, ref }) => ({
      // The pipeline of a fork has another job_project_id.
      ...{ namespace_id: namespaceId, project_id: projectId, job_project_id: projectId },
      // A protected tag may have the name of a protected branch.
      ...{ environment, ref, ref_type: ref && "branch", ref_protected: true },
      pipeline_source: ["push", "web"],
    }),
    maximumAge: "1h",
    recorded: ["project_path"],
    advice: "a job has its token from its start on, and gets a certificate within an hour",
  },
  aws: {
    questions: [
      issuer,
      asks("--role <arn>", "the ARN of its IAM role", roleArn),
      asks(
        "--org-id <id>",
        "its organisation's id (nothing for none)",
        /^o-[a-z0-9]{10,32}$/,
        never,
      ),
    ],
    claimsOf: ({ role = "", orgId }) => ({
      sub: role,
      [aws]: { aws_account: roleArn.exec(role)?.[1], org_id: orgId, principal_id: role },
    }),
    maximumAge: "10m",
    once: true,
    advice: "a role that is made again has the same ARN: guard who may make roles",
  },
  google: {
    questions: [
      asks("--service-account-id <number>", "its service account's number, uniqueId", number),
    ],
    issuerOf: () => "https://accounts.google.com",
    claimsOf: ({ serviceAccountId }) => ({ sub: serviceAccountId, email_verified: true }),
    maximumAge: "1h",
    advice: "everything that runs as this service account has the identity",
  },
  azure: {
    questions: [
      asks("--tenant-id <uuid>", "the id of its tenant", uuid),
      asks("--object-id <uuid>", "the object id (principal id) of its managed identity", uuid),
      otherIssuer,
    ],
    issuerOf: ({ tenantId }) => `https://login.microsoftonline.com/${tenantId}/v2.0`,
    claimsOf: ({ tenantId, objectId }) => ({ tid: tenantId, oid: objectId }),
    advice: "a token lives a day; some audiences need --issuer https://sts.windows.net/<tenant>/",
  },
  spiffe: {
    questions: [issuer, asks("--spiffe-id <uri>", "its SPIFFE ID in the other domain", spiffeId)],
    claimsOf: ({ spiffeId }) => ({ sub: spiffeId }),
    maximumAge: "10m",
    once: true,
    advice: "SPIRE needs jwt_issuer; put keys that are not published into jwks",
  },
};

/** The questions for every platform, which have no default because none would be safe. */
export const commonQuestions: readonly Question[] = [
  asks(
    "--audience <audience>",
    "the audience of its tokens: this CA's alone, such as its URL",
    visible,
  ),
  asks("--namespace <name>", "the namespace of its identity", label),
  asks("--account <name>", "the service account of its identity", label),
];

/** Makes the table of ISSUERS for the answers. @param mayRemember Whether the CA can remember used tokens. */
export function tableOf(recipe: Recipe, answers: Answers, cluster: string, mayRemember: boolean) {
  const { audience, namespace, account, issuer = recipe.issuerOf?.(answers) } = answers;
  const claims = recipe.claimsOf(answers);
  const { maximumAge: maximum_age, once, recorded } = recipe;
  const recorded_claims = recorded && [...Object.keys(claims), ...recorded];
  const bound = once && mayRemember ? { once } : { maximum_age };
  const subjects = [{ name: account, claims, namespace, account, ...bound }];
  const bounds = { audiences: [audience], cluster, namespaces: [namespace] };
  // Drops the members that are `undefined`, because JSON has none.
  return JSON.parse(JSON.stringify({ issuer, ...bounds, recorded_claims, subjects })) as object;
}
