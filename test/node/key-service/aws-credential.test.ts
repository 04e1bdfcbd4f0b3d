import { writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  awsKeysInFile,
  awsKeysOf,
  awsTokensOf,
} from "../../../src/node/key-service/aws-credential.ts";
import { listenOnLoopback } from "../../testkit/network/loopback.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

const now = new Date("2026-11-22T12:00:00Z");
const never = new AbortController().signal;
const keys = { AWS_ACCESS_KEY_ID: "AKIDEXAMPLE", AWS_SECRET_ACCESS_KEY: "secret/of+the+test" };

/** STS as its API reference has it, which answers each request with the next of these. */
async function playSts(...answers: readonly (readonly [status: number, body: string])[]) {
  const asked: { readonly fields: object; readonly authorization: string | undefined }[] = [];
  const server = createServer(async (request, response) => {
    const fields = Object.fromEntries(new URLSearchParams(await text(request)));
    const [status, body] = answers[asked.length] ?? [500, ""];
    asked.push({ fields, authorization: request.headers.authorization });
    response.writeHead(status).end(body);
  });
  const { host, close } = await listenOnLoopback(server);
  onTestFinished(close);
  const environment = { AWS_ENDPOINT_URL_STS: `http://${host}/`, AWS_REGION: "eu-west-1", ...keys };
  return { asked, environment };
}

const answerOf = (token: string): string =>
  `<GetWebIdentityTokenResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetWebIdentityTokenResult>
  <WebIdentityToken>${token}</WebIdentityToken><Expiration>2026-11-22T12:05:00Z</Expiration></GetWebIdentityTokenResult></GetWebIdentityTokenResponse>`;

const tokensOf = (environment: Readonly<Record<string, string>>) =>
  awsTokensOf(environment, () => now)("https://ca.example.com");

test("asks STS anew for each token, signed for its region", async () => {
  const { asked, environment } = await playSts([200, answerOf("a.b.c")], [200, answerOf("d.e.f")]);
  const obtain = tokensOf(environment);
  expect([await obtain?.(never), await obtain?.(never)]).toEqual(["a.b.c", "d.e.f"]);
  expect(asked[0]).toEqual({
    fields: {
      Action: "GetWebIdentityToken",
      Version: "2011-06-15",
      "Audience.member.1": "https://ca.example.com",
      SigningAlgorithm: "ES384",
      DurationSeconds: "300",
    },
    authorization: expect.stringMatching(
      /^AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE\/20261122\/eu-west-1\/sts\/aws4_request, SignedHeaders=content-type;host;x-amz-date, Signature=[0-9a-f]{64}$/,
    ),
  });
});

test.each<[string, number, string, RegExp]>([
  ["an answer without a token", 200, "<a/>", /answered without a token$/],
  ["a token with markup in it", 200, answerOf("<b>secret</b>"), /answered without a token$/],
  ["a refusal", 403, "<Error><Message>secret</Message></Error>", /^AWS cannot be asked: STS/],
])(
  "says in one sentence, which quotes nothing, that there was %s",
  async (_, status, body, said) => {
    const { environment } = await playSts([status, body]);
    const fault = await tokensOf(environment)?.(never).catch((error: unknown) => error);
    expect(fault).toMatchObject({ name: "OperatorError", message: expect.stringMatching(said) });
    expect(String(fault)).not.toContain("secret");
  },
);

test("has none where the machine has no region, or no credential", () => {
  expect(tokensOf(keys)).toBeUndefined();
  const without = { AWS_REGION: "eu-west-1", AWS_EC2_METADATA_DISABLED: "true" };
  expect(tokensOf(without)).toBeUndefined();
});

describe("a credential for a bucket", () => {
  async function inFile(text: string) {
    const path = join(await temporaryFolder(), "credentials");
    await writeFile(path, text);
    return { path, read: () => awsKeysInFile(path)(now) };
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
    await expect(awsKeysInFile("/nowhere/credentials")(now)).rejects.toThrow(/does not exist/);
  });

  test("comes from the variables of AWS's tools, whole or not at all", async () => {
    const variables = {
      AWS_ACCESS_KEY_ID: "AKID",
      AWS_SECRET_ACCESS_KEY: "secret",
      AWS_SESSION_TOKEN: "token\n",
    };
    expect(await awsKeysOf(variables)?.(now)).toEqual({
      accessKeyId: "AKID",
      secretAccessKey: "secret",
      sessionToken: "token",
    });
    const half = { AWS_ACCESS_KEY_ID: "AKID", AWS_EC2_METADATA_DISABLED: "true" };
    expect(awsKeysOf(half)).toBeUndefined();
  });
});
