import { parse as parseToml } from "smol-toml";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { type BucketPlace, logPlaceOf } from "../../src/node/stores/store-place.ts";
import { read } from "../pages/page-files.ts";

interface Statement {
  readonly Effect: "Allow" | "Deny";
  readonly Action: string | readonly string[];
  readonly Resource: string;
}

/** The statements of the function's role. CloudFormation's tags are read as their texts. */
const { Resources } = parse(read("deploy/lambda/template.yaml"), { logLevel: "silent" });
const statements: readonly Statement[] = Resources.Rampart.Properties.Policies[0].Statement;

/** Whether a text has the form of a pattern, whose `*` stand for any text. */
const fits = (pattern: string, text: string): boolean =>
  new RegExp(`^${pattern.replaceAll(/[^\w*]/g, "\\$&").replaceAll("*", ".*")}$`).test(text);

/** As IAM decides: something allows it, and nothing denies it. */
function isAllowed(action: string, object: string): boolean {
  const asked = statements.filter(
    ({ Action, Resource }) =>
      [Action].flat().some((each) => fits(each, action)) &&
      fits(Resource, `\${Bucket.Arn}/${object}`),
  );
  const effects = asked.map(({ Effect }) => Effect);
  return effects.includes("Allow") && !effects.includes("Deny");
}

const { STORE_PREFIX: prefix, LOG_ORIGIN } = parseToml(read("deploy/lambda/function/rampart.toml"));
const store = { kind: "s3", prefix } as BucketPlace;
const logPrefix = logPlaceOf({}, store, `${LOG_ORIGIN}`, {})?.prefix;

test("the function reads and writes what is below its prefix, and removes records of the store", () => {
  for (const action of ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"])
    expect(isAllowed(action, `${prefix}authorities/1.json`), action).toBe(true);
  for (const action of ["s3:GetObject", "s3:PutObject"])
    expect(isAllowed(action, `${logPrefix}stage`), action).toBe(true);
});

test.each(["stage", "checkpoint", "tile/0/000", "tile/entries/000"])(
  "the function removes no %s of the issuance log, nor a version of one",
  (name) => {
    expect(isAllowed("s3:DeleteObject", `${logPrefix}${name}`)).toBe(false);
    expect(isAllowed("s3:DeleteObjectVersion", `${logPrefix}${name}`)).toBe(false);
  },
);
