import { describePublicAddresses } from "../contract/public-address.ts";

describePublicAddresses();
