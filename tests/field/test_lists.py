"""Lists that are too large, too slow, or of a runtime that comes and goes."""

import asyncio
import time
from functools import partial

import pytest

from exporter.cri.lists import ListDecoder
from exporter.model.events import EventType
from exporter.pleg.relist import Lists
from exporter.web.headline import headline_of
from simulator.service import Method
from testbed.containerd import Containerd
from tests.support.cri_messages import container, lists, sandbox
from tests.support.facts import Play, beat, deleted, relist, up
from tests.support.observer import observing, parts
from tests.support.runtimes import simulated
from tests.support.scripted_runtime import ScriptedServer

SANDBOXES, CONTAINERS = Method.LIST_POD_SANDBOX, Method.LIST_CONTAINERS
