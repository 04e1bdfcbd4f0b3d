import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { awsKeysInFile, awsKeysOf } from "../../../src/node/key-service/aws-credential.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

const now = new Date("2026-11-24T12:00:00Z");

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
