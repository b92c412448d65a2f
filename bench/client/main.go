// The reference that others would write: a plain Go client of the CRI's official types, which
// keeps the states of containers and sandboxes in maps, from the events and from the lists, and
// does nothing else.
package main

import (
	"context"
	"flag"
	"log"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// gRPC's own limit is too small for a large node's list.
const largest = 64 << 20

type states struct {
	mutex      sync.Mutex
	announced  map[string]cri.ContainerEventType
	containers map[string]cri.ContainerState
	sandboxes  map[string]cri.PodSandboxState
}

func main() {
	socket := flag.String("socket", "", "the runtime's")
	period := flag.Duration("period", time.Second, "the pause after each relist")
	flag.Parse()
	connection, err := grpc.NewClient(
		"unix://"+*socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(largest)),
	)
	if err != nil {
		log.Fatal(err)
	}
	runtime := cri.NewRuntimeServiceClient(connection)
	known := &states{announced: map[string]cri.ContainerEventType{}}
	go known.subscribe(runtime)
	known.relist(runtime, *period)
}

func (known *states) subscribe(runtime cri.RuntimeServiceClient) {
	stream, err := runtime.GetContainerEvents(context.Background(), &cri.GetEventsRequest{})
	if err != nil {
		log.Fatal(err)
	}
	for {
		event, err := stream.Recv()
		if err != nil {
			log.Fatal(err)
		}
		known.mutex.Lock()
		if event.ContainerEventType == cri.ContainerEventType_CONTAINER_DELETED_EVENT {
			delete(known.announced, event.ContainerId)
		} else {
			known.announced[event.ContainerId] = event.ContainerEventType
		}
		known.mutex.Unlock()
	}
}

func (known *states) relist(runtime cri.RuntimeServiceClient, period time.Duration) {
	for ; ; time.Sleep(period) {
		boxes, err := runtime.ListPodSandbox(context.Background(), &cri.ListPodSandboxRequest{})
		if err != nil {
			log.Fatal(err)
		}
		rest, err := runtime.ListContainers(context.Background(), &cri.ListContainersRequest{})
		if err != nil {
			log.Fatal(err)
		}
		sandboxes := make(map[string]cri.PodSandboxState, len(boxes.Items))
		for _, sandbox := range boxes.Items {
			sandboxes[sandbox.Id] = sandbox.State
		}
		containers := make(map[string]cri.ContainerState, len(rest.Containers))
		for _, container := range rest.Containers {
			containers[container.Id] = container.State
		}
		known.mutex.Lock()
		known.sandboxes, known.containers = sandboxes, containers
		known.mutex.Unlock()
	}
}
