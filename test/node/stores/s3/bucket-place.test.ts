import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parseServeConfiguration } from "../../../../src/node/serve/serve-configuration.ts";
import {
  credentialsInEnvironment,
  credentialsInFile,
} from "../../../../src/node/stores/s3/credentials.ts";
import { parseXml } from "../../../../src/node/stores/s3/xml.ts";
import { randomKek } from "../../../testkit/configuration.ts";
import { temporaryFolder } from "../../../testkit/temporary-folder.ts";

type Values = Readonly<Record<string, unknown>>;

const environment = { AWS_ACCESS_KEY_ID: "AKID", AWS_SECRET_ACCESS_KEY: "secret" };
const place = (changes: Values, variables: Readonly<Record<string, string>> = environment) =>
  parseServeConfiguration(
    {
      ...{ STORE: "s3", STORE_BUCKET: "mesh-ca", S3_REGION: "eu-central-1" },
      ...{ ISSUERS: [{ issuer: "https://a.test" }], KEK: randomKek("k1"), ...changes },
    },
    variables,
  );

describe("the place of a bucket", () => {
  test.each<[string, Values, string]>([
    ["AWS", {}, "https://mesh-ca.s3.eu-central-1.amazonaws.com"],
    ["AWS in China", { S3_REGION: "cn-north-1" }, "https://mesh-ca.s3.cn-north-1.amazonaws.com.cn"],
    [
      "AWS, with a dot in the bucket",
      { STORE_BUCKET: "ca.mesh.test" },
      "https://s3.eu-central-1.amazonaws.com/ca.mesh.test",
    ],
    [
      "R2",
      { S3_ENDPOINT: "https://account.r2.cloudflarestorage.com/", S3_REGION: undefined },
      "https://account.r2.cloudflarestorage.com/mesh-ca",
    ],
    [
      "another service that wants hosts",
      { S3_ENDPOINT: "https://s3.test:9000", S3_ADDRESSING: "host" },
      "https://mesh-ca.s3.test:9000",
    ],
    ["AWS by paths", { S3_ADDRESSING: "path" }, "https://s3.eu-central-1.amazonaws.com/mesh-ca"],
  ])("has a URL at %s", (_, changes, url) => {
    expect(place(changes).store).toMatchObject({ kind: "s3", url, prefix: "" });
  });

  test("has a region of every service but AWS, and propagates as a shared store does", () => {
    const { store, ca } = place({ S3_ENDPOINT: "https://s3.test", S3_REGION: undefined });
    expect(store).toMatchObject({ region: "us-east-1" });
    expect(ca.phaseLengths.propagationSeconds).toBe(120);
  });

  test.each<[string, Values]>([
    ["STORE_BUCKET", { STORE_BUCKET: undefined }],
    ["STORE_BUCKET", { STORE_BUCKET: "Mesh" }],
    ["STORE_BUCKET", { STORE_BUCKET: "a/b" }],
    ["STORE_PREFIX", { STORE_PREFIX: "mesh" }],
    ["STORE_PREFIX", { STORE_PREFIX: "/mesh/" }],
    ["STORE_PREFIX", { STORE_PREFIX: "../../" }],
    ["S3_ENDPOINT", { S3_ENDPOINT: "http://s3.test" }],
    ["S3_ENDPOINT", { S3_ENDPOINT: "https://user:password@s3.test" }],
    ["S3_REGION", { S3_REGION: undefined }],
    ["S3_REGION", { S3_REGION: "eu_central_1" }],
    ["S3_ADDRESSING", { S3_ADDRESSING: "dns" }],
    ["S3_CREDENTIALS_FILE", { S3_CREDENTIALS_FILE: "" }],
    ["STORE_DIRECTORY", { STORE_DIRECTORY: "/store" }],
    ["STORE_NAMESPACE", { STORE_NAMESPACE: "rampart-store" }],
    ["STORE_BUCKET", { STORE: "directory", STORE_DIRECTORY: "/store", S3_REGION: undefined }],
    ["LOG_ORIGIN", { LOG_ORIGIN: "log.test" }],
    ["PROPAGATION_INTERVAL", { PROPAGATION_INTERVAL: "9s" }],
    ["AWS_SECRET_ACCESS_KEY", { AWS_SECRET_ACCESS_KEY: "secret" }],
  ])("has a fault at %s (%#)", (key, changes) => {
    expect(() => place(changes)).toThrow(new RegExp(`^${key}: [^\\n]+$`));
  });

  test("needs a credential, and names both places for it", () => {
    expect(() => place({}, {})).toThrow(/^S3_CREDENTIALS_FILE: .*AWS_ACCESS_KEY_ID/);
  });
});

describe("a credential for a bucket", () => {
  async function inFile(text: string) {
    const path = join(await temporaryFolder(), "credentials");
    await writeFile(path, text);
    return { path, read: credentialsInFile(path) };
  }

  const whole = { accessKeyId: "AKID", secretAccessKey: "a+b/c=", sessionToken: undefined };
  const lines = "aws_access_key_id = AKID\naws_secret_access_key=a+b/c=";

  test.each([
    ["alone in its file", lines],
    ["in its profile", `# of the mesh\n[default]\n${lines}\n`],
    [
      "beside other profiles",
      `[dev]\r\naws_access_key_id=X\r\n[default]\r\n${lines}\r\n[prod]\r\na=b`,
    ],
  ])("is read %s", async (_, text) => {
    expect(await (await inFile(text)).read()).toEqual(whole);
  });

  test("is read anew each time", async () => {
    const { path, read } = await inFile(lines);
    await read();
    await writeFile(path, `${lines}\naws_session_token = t/==`);
    expect(await read()).toEqual({ ...whole, sessionToken: "t/==" });
  });

  test.each([
    ["", "an empty file"],
    ["aws_access_key_id = AKID", "half of it"],
    [`[dev]\n${lines}`, "that of another profile"],
    ["aws_access_key_id = a b\naws_secret_access_key = c", "two words"],
    ["aws_access_key_id = a/b\naws_secret_access_key = c", "a scope in the id"],
    [`${lines}\u00e9`, "a letter that no header has"],
  ])("is refused where the file has %j: %s", async (text) => {
    const { path, read } = await inFile(text);
    await expect(read()).rejects.toThrow(
      `${path} must hold aws_access_key_id and aws_secret_access_key`,
    );
  });

  test("is refused where there is no file", async () => {
    await expect(credentialsInFile("/nowhere/credentials")()).rejects.toThrow(/does not exist/);
  });

  test("comes from the variables of AWS's tools, whole or not at all", async () => {
    const variables = { ...environment, AWS_SESSION_TOKEN: "token\n" };
    expect(await credentialsInEnvironment(variables)?.()).toEqual({
      ...{ accessKeyId: "AKID", secretAccessKey: "secret", sessionToken: "token" },
    });
    expect(credentialsInEnvironment({ AWS_ACCESS_KEY_ID: "AKID" })).toBeUndefined();
  });
});

describe("XML of S3", () => {
  const document = (children: readonly unknown[], text = "") => ({ name: "a", children, text });
  const element = (name: string, text = "") => ({ name, children: [], text });

  test.each([
    ["<a/>", document([])],
    ['<?xml version="1.0"?>\n<a x="1" y=\'2\'><b/>c</a>\n', document([element("b")], "c")],
    ["<s:a xmlns:s='urn:x'><s:b>c</s:b></s:a>", document([element("b", "c")])],
    ["<a>&lt;&amp;&#65;&#x1f511;&quot;</a>", document([], '<&A\u{1f511}"')],
  ])("%j is read", (text, expected) => {
    expect(parseXml(text)).toMatchObject(expected);
  });

  test.each([
    "",
    "a",
    "<a>",
    "</a>",
    "<a></b>",
    "<a/><b/>",
    "<a/>b",
    "<a><!-- c --></a>",
    "<a><![CDATA[c]]></a>",
    '<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>',
    "<a>&b;</a>",
    "<a>&amp</a>",
    "<a>&#0;</a>",
    "<a>&#x110000;</a>",
    "<a b></a>",
    "<a b=c></a>",
    "<a></a b='c'>",
    "<a>".repeat(17) + "</a>".repeat(17),
  ])("%j is refused", (text) => {
    expect(() => parseXml(text)).toThrow(/something else than XML/);
  });
});
