import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/layout.css";
import "./styles/kit.css";
import "./styles/records.css";
import { render } from "preact";
import { App } from "./app/app.tsx";
import { watchLinks } from "./data/location.ts";
import { openSession } from "./data/session.ts";

watchLinks(document);
void openSession();
const root = document.getElementById("app");
if (root !== null) render(<App />, root);
