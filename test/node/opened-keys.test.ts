import { nodeCryptoProvider } from "../../src/node/node-crypto-provider.ts";
import { describeOpenedKeys } from "../contract/opened-keys.ts";

describeOpenedKeys(nodeCryptoProvider, 0);
