import { useSignalEffect } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect, useErrorBoundary, useState } from "preact/hooks";
import { followStream } from "../data/live.ts";
import { path } from "../data/location.ts";
import { session, toError } from "../data/session.ts";
import { ExplainPanel } from "../kit/explain.tsx";
import { Page } from "../kit/layout.tsx";
import { ShortcutsOverlay, watchKeys } from "../kit/shortcuts.tsx";
import { Empty, Failed, Loading } from "../kit/state.tsx";
import { Toasts } from "../kit/toast.tsx";
import { type PageEntry, pageOf } from "../pages/registry.ts";
import { Frame } from "./frame.tsx";
import { SignIn } from "./sign-in.tsx";

export function App() {
  useEffect(() => watchKeys(document), []);
  useEffect(() => followStream(), []);
  const { kind } = session.value;
  if (kind === "opening") return <Loading what="the session" />;
  if (kind !== "signed_in") return <SignIn />;
  return (
    <>
      <Frame>
        <Routed />
      </Frame>
      <ExplainPanel />
      <ShortcutsOverlay />
      <Toasts />
    </>
  );
}

type Loaded = { readonly page: PageEntry; readonly View: ComponentType<Record<string, string>> };

/** The page of the address. The old page stays until the chunk of the new one is there. */
function Routed() {
  const [loaded, setLoaded] = useState<Loaded | null>(null);
  const [failed, setFailed] = useState<unknown>(null);
  useSignalEffect(() => {
    const found = pageOf(path.value);
    if (found === null) return;
    found.page.load().then(
      (View) => {
        setFailed(null);
        setLoaded({ page: found.page, View: View as Loaded["View"] });
      },
      (error) => setFailed(error),
    );
  });
  const found = pageOf(path.value);
  if (found === null) return <NoPage />;
  if (failed !== null) return <Failed what="this page" error={toError(failed)} retry={() => location.reload()} />;
  if (loaded === null) return <Loading what="the page" />;
  if (loaded.page !== found.page) return null;
  return <Guarded key={path.value} View={loaded.View} params={found.params} />;
}

/** A page that throws does not take the navigation with it. */
function Guarded({ View, params }: { readonly View: Loaded["View"]; readonly params: Record<string, string> }) {
  const [error, reset] = useErrorBoundary();
  if (error !== undefined) return <Failed what="this page" error={toError(error)} retry={reset} />;
  return <View {...params} />;
}

function NoPage() {
  return (
    <Page title="No such page">
      <Empty title={`${path.value} is not a page of the dashboard`}>
        <a href="/">Go to Now</a>
      </Empty>
    </Page>
  );
}
