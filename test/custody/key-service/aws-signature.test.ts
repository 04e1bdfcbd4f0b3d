import { createHash } from "node:crypto";
import { AwsV4Signer } from "aws4fetch";
import { expect, test } from "vitest";
import { AwsKeys } from "../../../src/custody/key-service/aws-signature.ts";

const keys = {
  accessKeyId: "AKID",
  secretAccessKey: "secret/of+the=test",
  sessionToken: "of/today=",
};

test.each([
  ["GET", "https://bucket.s3.eu-test-1.amazonaws.com/mesh-1/a/b.json", "", {}],
  ["GET", "http://127.0.0.1:9000/mesh?list-type=2&prefix=m-1%2F&token=a%2Bb%20~", "", {}],
  ["PUT", "https://s3.test/mesh/a", "content", { "if-none-match": "*" }],
  ["POST", "https://kms.eu-test-1.amazonaws.com/", "{}", { "x-amz-target": "TrentService.Sign" }],
])("signs a %s of %s as another implementation does", async (method, url, body, headers) => {
  const now = new Date("2026-11-22T09:30:01.500Z");
  const digest = createHash("sha256").update(body).digest("hex");
  const all = { ...headers, "x-amz-content-sha256": digest };
  // Another secret for each method: none signs with the key of a former one.
  const own = { ...keys, secretAccessKey: keys.secretAccessKey + method };
  const place = ["eu-test-1", url.includes("kms") ? "kms" : "s3"] as const;
  const { authorization, ...signed } = await AwsKeys.signedHeaders(
    { method, url: new URL(url), headers: all, digest },
    own,
    place,
    now,
  );
  const [region, service] = place;
  const datetime = "20261122T093001Z";
  const signer = new AwsV4Signer({
    method,
    url,
    headers: signed,
    ...own,
    region,
    service,
    datetime,
  });
  const expected = await signer.sign();
  expect(authorization).toBe(expected.headers.get("authorization"));
  expect(new Headers(signed).get("x-amz-security-token")).toBe("of/today=");
});

test.each([
  [undefined, "amazonaws.com"],
  ["eu-central-1", "amazonaws.com"],
  ["us-gov-west-1", "amazonaws.com"],
  ["cn-north-1", "amazonaws.com.cn"],
  ["eusc-de-east-1", "amazonaws.eu"],
  ["us-iso-east-1", "c2s.ic.gov"],
  ["us-isob-east-1", "sc2s.sgov.gov"],
  ["us-isof-south-1", "csp.hci.ic.gov"],
  ["eu-isoe-west-1", "cloud.adc-e.uk"],
])("the services of the region %s are below %s", (region, domain) => {
  expect(AwsKeys.domain(region)).toBe(domain);
});
