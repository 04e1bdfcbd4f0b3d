import { expect, test } from "vitest";
import { AwsKeys } from "../../../src/custody/key-service/aws-signature.ts";

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
