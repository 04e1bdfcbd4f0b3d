import { basename } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { filesAt, read } from "../pages/page-files.ts";

interface Job {
  readonly environment?: string;
  readonly permissions?: Readonly<Record<string, string>>;
  readonly steps: readonly { readonly uses?: string; readonly run?: string }[];
}

interface Workflow {
  readonly on: object;
  readonly permissions: Readonly<Record<string, string>>;
  readonly jobs: Readonly<Record<string, Job>>;
}

const workflowOf = (name: string): Workflow => parse(read(`.github/workflows/${name}`));

const commandsOf = ({ steps }: Job): string => steps.map(({ run = "" }) => run).join("\n");

/** What a job may do: with its own rights, or else with those of the workflow. */
const rightsOf = ({ permissions }: Workflow, job: Job) => job.permissions ?? permissions;

describe.each(filesAt(".github/workflows/*").map((path) => basename(path)))(
  "the workflow %s",
  (name) => {
    const workflow = workflowOf(name);
    const jobs = Object.values(workflow.jobs);

    test("names each action by its commit", () => {
      for (const { uses } of jobs.flatMap(({ steps }) => steps))
        if (uses !== undefined) expect(uses).toMatch(/^[\w/-]+@[0-9a-f]{40}$/);
    });

    test("pins npm, and runs no install script", () => {
      const lines = jobs.flatMap((job) => commandsOf(job).split("\n"));
      for (const line of lines.filter((each) => /\bnpm (?:ci|install|publish)\b/.test(each)))
        expect(line).toContain("--ignore-scripts");
      for (const job of jobs)
        if (/\bnpm\b/.test(commandsOf(job))) expect(commandsOf(job)).toMatch(/npm@\d+\.\d+\.\d+\n/);
    });

    test("gives no right but to read to a job that runs the repository or what its dependencies bring", () => {
      for (const job of jobs) {
        const isBuilding = /npm (?:ci|run|test)|npx|docker build/.test(commandsOf(job));
        const isCheckedOut = job.steps.some(({ uses }) => uses?.startsWith("actions/checkout@"));
        if (!isBuilding && !isCheckedOut) continue;
        expect(rightsOf(workflow, job)).toEqual({ contents: "read" });
        expect(job.environment).toBeUndefined();
        expect(JSON.stringify(job)).not.toMatch(/github\.token|secrets\./);
      }
    });
  },
);

test("a release is built by one job, and published by another that waits for it and has its files checked", () => {
  const { build, publish } = workflowOf("release.yml").jobs;
  expect(publish).toMatchObject({ needs: "build", environment: "release" });
  expect(build && commandsOf(build)).toContain("npm run release");
  expect(publish && commandsOf(publish)).toContain("sha256sum --check --strict SHA256SUMS");
});

test("the README's commands run for every pull request, on both architectures", () => {
  const { on, jobs } = workflowOf("ci.yml");
  expect(Object.keys(on)).toContain("pull_request");
  const { test: job } = jobs;
  expect(job).toMatchObject({
    strategy: { matrix: { machine: ["ubuntu-24.04", "ubuntu-24.04-arm"] } },
  });
  for (const command of ["npm ci", "npx node test/npm-start.ts", "npm test"])
    expect(job && commandsOf(job)).toContain(command);
});
