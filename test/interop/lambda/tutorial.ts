import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { parse, stringify } from "smol-toml";
import { blocksOf } from "../../pages/shell-blocks.ts";
import { runWell } from "../../testkit/programs/child-process.ts";
import type { Mesh } from "../native-grpc/mesh.ts";
import { clone } from "../pages/scenes.ts";
import type { Terminal } from "../pages/terminal.ts";
import { bucket as bucketName, credential, type Gateway } from "../s3/gateway.ts";

const page = "docs/tutorials/lambda.md";
const day = new Date().toISOString().slice(0, 10);

/** What the tutorial takes for granted. */
interface Account {
  /** The command of AWS SAM. */
  readonly sam: string;
  /** A Python with boto3. */
  readonly python: string;
  /** Where AWS answers. */
  readonly aws: string;
  readonly bucket: Gateway;
  readonly mesh: Mesh;
}

/** A function that the tutorial has deployed. */
export type Deployment = Awaited<ReturnType<typeof deployAsWritten>>;

/** Types the tutorial from a fresh clone up to the deployed function. */
export async function deployAsWritten(
  folder: string,
  account: Account,
  ends: AsyncDisposableStack,
) {
  const terminal = await clone(folder, ends);
  await prepare(terminal, folder, account);
  const [make = "", deploy = "", ...rest] = blocksOf(page)
    .filter(({ language }) => language === "sh")
    .map(({ text }) => text);
  await terminal.type(make);
  await terminal.type("(cd deploy/lambda && sam validate --lint)");
  await terminal.type(deploy);
  return {
    /** The folder that was uploaded. */
    code: join(folder, "deploy/lambda/.aws-sam/build/Rampart"),
    /** The variables that AWS gives it. */
    environment: await deployed(folder, account),
    /** Types the rest of the tutorial, with the function at another address. @returns What each block printed. */
    typeRest: async (origin: string): Promise<readonly string[]> => {
      const printed: string[] = [];
      for (const text of rest) {
        const there = text.replace(/^URL=https:\S+/, `URL=${origin}`);
        printed.push(await terminal.type(there));
      }
      return printed;
    },
  };
}

/** Programs and variables of the reader, and what the editor leaves in the file. */
async function prepare(terminal: Terminal, folder: string, account: Account): Promise<void> {
  const { sam, aws, bucket, mesh } = account;
  const bin = join(folder, ".home/bin");
  await mkdir(bin, { recursive: true });
  const edited = join(folder, ".home/edited.toml");
  const file = join(folder, "deploy/lambda/function/rampart.toml");
  const { S3_REGION: _, ...written } = parse(await readFile(file, "utf8"));
  const own = {
    STORE_BUCKET: bucketName,
    S3_ENDPOINT: bucket.origin,
    S3_CA_FILE: bucket.rootsFile,
    PROPAGATION_INTERVAL: "10s",
    INCEPTION_DATE: day,
    LOG_INCEPTION_DATE: day,
    ISSUERS: [mesh.issuerTable],
  };
  await writeFile(edited, stringify({ ...written, ...own }));
  const programs = {
    editor: `cp "${edited}" "$1"`,
    // PyPI has no AWS CLI of version 2.
    aws: `[ "$*" = "configure export-credentials --format env" ]
echo export AWS_ACCESS_KEY_ID=${credential.accessKeyId}
echo export AWS_SECRET_ACCESS_KEY=${credential.secretAccessKey}`,
  };
  for (const [name, text] of Object.entries(programs)) {
    await writeFile(join(bin, name), `#!/bin/sh -eu\n${text}\n`, { mode: 0o755 });
  }
  await terminal.type(`export EDITOR=editor PATH="${bin}:${dirname(sam)}:$PATH"
export AWS_ENDPOINT_URL=${aws} AWS_DEFAULT_REGION=eu-central-1 SAM_CLI_TELEMETRY=0
export AWS_ACCESS_KEY_ID=AKIAINTEROP AWS_SECRET_ACCESS_KEY=secret`);
}

const question = `
import boto3, json
[stack] = boto3.client("cloudformation").describe_stacks(StackName="rampart")["Stacks"]
[function] = boto3.client("lambda").list_functions()["Functions"]
[rule] = boto3.client("events").list_rules()["Rules"]
buckets = boto3.client("s3").list_buckets()["Buckets"]
print(json.dumps([stack, function, rule, buckets], default=str))
`;

/** Looks at what AWS has made of the template. @returns The variables of the function. */
async function deployed(folder: string, { python, aws }: Account): Promise<Record<string, string>> {
  const environment = {
    AWS_ENDPOINT_URL: aws,
    AWS_DEFAULT_REGION: "eu-central-1",
    AWS_ACCESS_KEY_ID: "AKIAINTEROP",
    AWS_SECRET_ACCESS_KEY: "secret",
  };
  const answer = await runWell(python, ["-c", question], { environment });
  const [stack, made, rule, buckets] = JSON.parse(answer);
  assert.match(
    stack.Outputs[0].OutputValue,
    /^https:\/\/\w+\.lambda-url\.eu-central-1\.on\.aws\/$/,
  );
  assert.deepEqual([made.Handler, made.Runtime], ["index.handler", "nodejs24.x"]);
  assert.equal(rule.ScheduleExpression, "rate(1 minute)");
  const names = buckets.map(({ Name }: { Name: string }) => Name);
  assert(names.includes("rampart-123456789012-eu-central-1"), names.join());
  const variables = made.Environment.Variables;
  const kek = await readFile(join(folder, ".home/rampart-kek"), "utf8");
  assert.deepEqual(variables, { KEK: kek.trim() });
  return variables;
}
