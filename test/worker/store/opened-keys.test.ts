import { webCryptoProvider } from "../../../src/pki/web-crypto-provider.ts";
import { describeOpenedKeys } from "../../contract/opened-keys.ts";

describeOpenedKeys(webCryptoProvider, 1);
