import { describe, expect, test } from "vitest";
import { ServeConfiguration } from "../../../src/node/serve/serve-configuration.ts";
import { randomKek } from "../../testkit/configuration.ts";

type Values = Readonly<Record<string, unknown>>;

const environment = { AWS_ACCESS_KEY_ID: "AKID", AWS_SECRET_ACCESS_KEY: "secret" };
const place = (changes: Values, variables: Readonly<Record<string, string>> = environment) =>
  ServeConfiguration.parse(
    {
      STORE: "s3",
      STORE_BUCKET: "mesh-ca",
      S3_REGION: "eu-central-1",
      ISSUERS: [{ issuer: "https://a.test" }],
      KEK: randomKek(),
      ...changes,
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

  test.each<[string, Values, Readonly<Record<string, string>>]>([
    ["AWS, on a machine that has no instance's keys", {}, { AWS_EC2_METADATA_DISABLED: "true" }],
    ["another service, which gets no instance's keys", { S3_ENDPOINT: "https://s3.test" }, {}],
  ])("needs a credential for %s, and names the places for it", (_, changes, variables) => {
    expect(() => place(changes, variables)).toThrow(/^S3_CREDENTIALS_FILE: .*AWS_ACCESS_KEY_ID/);
  });

  test.each<[string, Values, Readonly<Record<string, string>>]>([
    ["of a web identity", {}, { AWS_WEB_IDENTITY_TOKEN_FILE: "/token", AWS_ROLE_ARN: "arn" }],
    ["of a container", {}, { AWS_CONTAINER_CREDENTIALS_FULL_URI: "http://169.254.170.23/v1" }],
    ["of an instance", {}, {}],
    [
      "of a web identity for another service",
      { S3_ENDPOINT: "https://s3.test" },
      { AWS_WEB_IDENTITY_TOKEN_FILE: "/token", AWS_ROLE_ARN: "arn" },
    ],
  ])("takes the role %s", (_, changes, variables) => {
    expect(place(changes, variables).store).toHaveProperty("credentials");
  });
});

describe("the place of a log", () => {
  const logged = { LOG_ORIGIN: "log.test" };
  const inNamespace = { STORE: "kubernetes", STORE_NAMESPACE: "store", STORE_BUCKET: undefined };

  test.each<[string, Values, string, string]>([
    ["beside the records", { STORE_PREFIX: "mesh-1/" }, "mesh-ca", "mesh-1-log/6c6f672e74657374/"],
    ["in a bucket of its own", { LOG_STORE: "mesh-log/" }, "mesh-log", "6c6f672e74657374/"],
    ["at a path", { LOG_STORE: "mesh-log/a/b/" }, "mesh-log", "a/b/6c6f672e74657374/"],
    ["beside Secrets", { ...inNamespace, LOG_STORE: "mesh-log/" }, "mesh-log", "6c6f672e74657374/"],
  ])("is %s", (_, changes, bucket, prefix) => {
    expect(place({ ...logged, ...changes }).logPlace).toMatchObject({ bucket, prefix });
  });

  test.each<[string, Values]>([
    ["LOG_ORIGIN", logged],
    ["LOG_STORE", { ...logged, LOG_STORE: "mesh-log" }],
    ["LOG_STORE", { ...logged, LOG_STORE: "mesh-log//" }],
    ["LOG_STORE", { LOG_STORE: "mesh-log/" }],
    ["LOG_STORE", { ...logged, ...inNamespace, S3_REGION: undefined }],
    ["S3_REGION", { ...logged, ...inNamespace, LOG_STORE: "mesh-log/", S3_REGION: undefined }],
    ["S3_REGION", inNamespace],
  ])("refuses %s", (key, changes) => {
    expect(() => place(changes)).toThrow(new RegExp(`^${key}: [^\\n]+$`));
  });
});
